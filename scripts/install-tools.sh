#!/bin/sh
# Installs the tools that build and tests need and that are not there, from
# Debian's packages. Go itself must be there: Debian's is too old.
set -eu
cd "$(dirname "$0")/.."
want=
need() { # need COMMAND PACKAGE
	command -v "$1" >/dev/null 2>&1 || want="$want $2"
}
need cc gcc
need c++ g++
need cmake cmake
need make make
need git git
need curl curl
need strip binutils
need python3 python3
python3 -m pip --version >/dev/null 2>&1 || want="$want python3-pip"
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || want="$want python3-venv"
need node nodejs
need npm npm
if [ -n "$want" ]; then
	echo "installing:$want"
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	$sudo apt-get update -qq
	# shellcheck disable=SC2086 # a list of packages
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $want
fi
scripts/check-tools.sh go cc c++ cmake make python3 pip venv node npm
