# make help lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# -trimpath keeps paths out of the cache keys: a clean clone finds what another
# one has compiled, llama.cpp's C++ among it (minutes).
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath
export THOTH_CACHE ?= $(HOME)/.cache/thoth

BIN := build/bin
PURE := openai-server entrypoint thoth
# What a target needs is checked before it begins; some need more or less.
TOOLS := platform go cc c++ cmake make

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- build -----------------------------------------------------------------

.PHONY: build bins station backends flags tools

build: bins station backends ## everything: build/bin and build/lib/ollama

bins: | tools ## the binaries that need no C: host, supervisor, operator's tool
	CGO_ENABLED=0 go build -o $(BIN)/ $(PURE:%=./cmd/%)

station: flags | tools ## the station, with llama.cpp linked in
	CGO_ENABLED=1 go build -o $(BIN)/ ./cmd/fat-station

backends: | tools ## the CPU kernel libraries the station loads
	@scripts/backends.sh

flags: | tools ## where llama.cpp's headers are (station/native/flags_gen.go)
	@scripts/native-flags.sh

tools:
	@scripts/check-tools.sh $(TOOLS)

# --- clean -----------------------------------------------------------------

.PHONY: clean
clean: ## remove build/ (caches stay)
	rm -rf build

# --- further targets: each topic has a file --------------------------------

include $(wildcard scripts/*.mk deploy/*.mk)
