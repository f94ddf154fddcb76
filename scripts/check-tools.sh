#!/bin/sh
# Names everything missing at once, with the Debian packages that have it.
#   scripts/check-tools.sh platform go cc c++ cmake make python3 pip
set -eu
cd "$(dirname "$0")/.."
go_min=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)
python=${THOTH_PYTHON:-python3}
missing= packages= go_hint=
lacks() { # name, Debian package or nothing
	missing="$missing${missing:+, }$1"
	packages="$packages${2:+ $2}"
}
need() { # name, package, command that works when it is there
	name=$1 package=$2
	shift 2
	"$@" >/dev/null 2>&1 || lacks "$name" "$package"
}
need_go() {
	# As go itself sees it here: it may fetch and become the version of go.mod.
	found=$(go env GOVERSION 2>/dev/null | sed 's/^.*go\([0-9]\)/\1/; s/ .*//')
	if [ "$(printf '%s\n' "$found" "$go_min" | sort -V | head -n 1)" != "$go_min" ]; then
		lacks "Go $go_min or newer${found:+ (here is $found)}" ""
		go_hint=1
	fi
}
# shellcheck disable=SC2086 # CC may be a compiler behind a wrapper
for t in "$@"; do
	case $t in
	platform)
		here=$(uname -sm)
		if [ "$here" != "Linux x86_64" ]; then
			echo "the station builds on Linux x86-64 only for now; this is $here" >&2
			exit 1
		fi
		;;
	go) need_go ;;
	cc) need "a C compiler" gcc ${CC:-cc} --version ;;
	c++) need "a C++ compiler" g++ ${CXX:-c++} --version ;;
	cmake) need cmake cmake cmake --version ;;
	make) need make make make --version ;;
	python3) need python3 python3 "$python" --version ;;
	venv) need "Python's venv" python3-venv "$python" -c 'import ensurepip, venv' ;;
	node) need Node.js nodejs node --version ;;
	npm) need npm npm npm --version ;;
	pip) need pip python3-pip "$python" -m pip --version ;;
	*) echo "check-tools: unknown tool $t" >&2; exit 2 ;;
	esac
done
if [ -n "$missing" ]; then
	{
		echo "missing: $missing"
		[ -z "$go_hint" ] || echo "Go: https://go.dev/dl (the packages of distributions are often older)"
		[ -z "$packages" ] || printf 'Debian and Ubuntu:\n  apt-get install%s\n' "$packages"
	} >&2
	exit 1
fi
