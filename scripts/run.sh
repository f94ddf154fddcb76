#!/bin/sh
# Starts the built server with a model: scripts/run.sh [SPEC]
#
# Without SPEC it is THOTH_MODEL, without that the default model. Fetches it if it
# is not there, then becomes the supervisor: Ctrl-C reaches it directly, and its
# exit status is the caller's. All settings are the supervisor's environment
# variables.
set -eu
bin=$(cd "$(dirname "$0")/.." && pwd)/build/bin

given=${1:-${THOTH_MODEL:-}}
THOTH_MODEL=$("$bin/thoth" pull --print-path "$@")
export THOTH_MODEL
if [ -z "$given" ]; then # the default model's own name says little
	export THOTH_MODEL_NAME="${THOTH_MODEL_NAME:-smollm2-135m}"
fi
exec "$bin/entrypoint"
