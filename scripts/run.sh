#!/bin/sh
# Starts the built server with a model: scripts/run.sh [SPEC]
#
# Fetches the model if it is not there, then becomes the supervisor. Settings
# come from the environment (THOTH_*), as they do for the supervisor itself.
set -eu
cd "$(dirname "$0")/.."

model=$(build/bin/thoth pull --print-path "$@")
export THOTH_MODEL="$model"

# Ctrl-C goes to make as well, which would call a clean stop an error if we
# said so with a status; the supervisor's own status tells a failure.
exec build/bin/entrypoint
