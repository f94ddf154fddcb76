# The steps of Dockerfile.cpu as targets, so that each of them also runs where
# no container engine does: `make image-steps` does all of them here.
#
#   DEST    root of the tree that becomes /opt/thoth   (default build/image/opt/thoth)
#   MODELS  folder that becomes /models                (default build/image/models)
#   MODEL   as for `make run`; `none` for an image without a model, to be mounted

DEST ?= build/image/opt/thoth
MODELS ?= build/image/models

.PHONY: image-tree image-model image-model-whole image-selftest image-steps

image-tree: ## copy the built programs and libraries to DEST, without debug symbols
	rm -rf '$(DEST)'
	mkdir -p '$(DEST)/bin' '$(DEST)/lib'
	cp build/bin/entrypoint build/bin/fat-station build/bin/openai-server build/bin/thoth '$(DEST)/bin/'
	cp -R build/lib/ollama '$(DEST)/lib/'
	strip --strip-debug '$(DEST)'/bin/*
	chmod -R a+rX,go-w '$(DEST)'

# An image has one file, and the parts of a split model find each other by name.
image-model-whole:
ifneq ($(findstring -00001-of-,$(model-spec)),)
	@echo "split models are not put into an image: mount the folder at /models and set THOTH_MODEL" >&2; exit 1
endif

image-model: image-model-whole ## put MODEL at MODELS/model.gguf; MODEL=none only makes the folder
	rm -rf '$(MODELS)'
	mkdir -p '$(MODELS)'
ifneq ($(strip $(MODEL)),none)
	m=$$(build/bin/thoth pull --print-path $(if $(strip $(MODEL)),'$(strip $(MODEL))')) && cp "$$m" '$(MODELS)/model.gguf'
endif
	chmod -R a+rX,go-w '$(MODELS)'

image-selftest: ## run the tree's own self-test, with the model if there is one
	@m='$(abspath $(MODELS))/model.gguf'; test -e "$$m" || m=; \
	cd / && THOTH_MODEL="$$m" '$(abspath $(DEST))/bin/fat-station' --selftest

image-steps: image-model-whole ## every step of Dockerfile.cpu, without a container engine
	$(MAKE) build
	$(MAKE) image-tree
	$(MAKE) image-model
	$(MAKE) image-selftest
