#!/bin/sh
# Starts the built server with a model: scripts/run.sh [SPEC]
#
# Fetches the model if it is not there, then becomes the supervisor. Settings
# come from the environment (THOTH_*), as they do for the supervisor itself.
set -eu
cd "$(dirname "$0")/.."

model=$(build/bin/thoth pull --print-path "$@")
export THOTH_MODEL="$model"

# The supervisor takes this process over: Ctrl-C reaches it directly, and its
# exit status is the one make sees.
exec build/bin/entrypoint
