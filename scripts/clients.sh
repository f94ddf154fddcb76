#!/bin/sh
# Installs the client libraries that the tests of cmd/e2e/clients drive into
# build/clients: once for each content of their lists and each interpreter.
set -eu
cd "$(dirname "$0")/.."
from=cmd/e2e/clients to=build/clients python=${THOTH_PYTHON:-python3}
want=$({ cat "$from/requirements.txt" "$from/package.json" "$from/package-lock.json" "$0"; "$python" --version; node --version; } | sha256sum)
[ "$(cat "$to/installed" 2>/dev/null || true)" != "$want" ] || exit 0
rm -rf "$to"
mkdir -p "$to"
"$python" -m venv "$to/venv"
# The list is complete, so nothing needs to be resolved.
"$to/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --requirement "$from/requirements.txt"
cp "$from/package.json" "$from/package-lock.json" "$to/"
npm ci --prefix "$to" --silent --no-audit --no-fund --ignore-scripts
echo "$want" >"$to/installed"
