#!/bin/sh
# Puts the CPU kernel libraries into build/lib/ollama. They are built once for a
# module version, our build files, the compilers and their flags, kept in a cache
# folder, and copied from there, so that a clean clone does not build them again.
set -eu
cd "$(dirname "$0")/.."
src=station/native/backends
out=build/lib/ollama
module=$(go list -m -f '{{.Dir}}' github.com/ollama/ollama)
version=$(go list -m -f '{{.Version}}' github.com/ollama/ollama)
if [ -z "$module" ]; then # not fetched yet
	go mod download github.com/ollama/ollama
	module=$(go list -m -f '{{.Dir}}' github.com/ollama/ollama)
fi
# shellcheck disable=SC2086 # CC may be a compiler behind a wrapper
compilers=$(${CC:-cc} --version && ${CXX:-c++} --version)
key=$( {
	printf '%s\n' "$version" "$compilers" "${CC:-}" "${CXX:-}" "${CFLAGS:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}" "$(uname -m)"
	cat "$src"/*
} | sha256sum | cut -c1-16)
cache=${THOTH_CACHE:-$HOME/.cache/thoth}/backends/$version-$key

if [ ! -e "$cache/complete" ]; then
	echo "building the CPU kernel libraries (a minute or two, once)"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	log=$work/build.log
	if ! { cmake -S "$src" -B "$work/b" -DMODULE="$module" &&
		cmake --build "$work/b" --target backends --parallel "${JOBS:-$(nproc)}"; } >"$log" 2>&1; then
		tail -40 "$log" >&2
		exit 1
	fi
	# Into place by one rename: two builds at once must not see each other's halves.
	mkdir -p "$(dirname "$cache")"
	ready=$(mktemp -d "$cache.XXXXXX")
	chmod 755 "$ready"
	cp -a "$work/b/lib/ollama/." "$ready/"
	touch "$ready/complete"
	mv -T "$ready" "$cache" 2>/dev/null || rm -rf "$ready"
fi

if [ "$(cat "$out/.key" 2>/dev/null)" != "$key" ]; then
	mkdir -p build/lib
	rm -rf "$out.new"
	cp -a "$cache" "$out.new"
	rm "$out.new/complete"
	echo "$key" >"$out.new/.key"
	for d in "$out"/cuda_v*; do # kept: built apart
		if [ -d "$d" ]; then mv "$d" "$out.new/"; fi
	done
	rm -rf "$out"
	mv "$out.new" "$out"
fi
