#!/bin/sh
# Names every missing tool at once, with the Debian package that has it.
#   scripts/check-tools.sh go cc c++ cmake make python3 pip
set -eu
missing= packages=
need() { # name, command line that works when it is there, package
	if ! sh -c "$2" >/dev/null 2>&1; then
		missing="$missing $1"
		packages="$packages $3"
	fi
}
for tool in "${@:-go cc c++ cmake make python3 pip}"; do
	for t in $tool; do
		case $t in
		go) need go "go version" "golang-go (1.26 or newer; see https://go.dev/dl)" ;;
		cc) need "a C compiler" "cc --version" gcc ;;
		c++) need "a C++ compiler" "c++ --version" g++ ;;
		cmake) need cmake "cmake --version" cmake ;;
		make) need make "make --version" make ;;
		python3) need python3 "python3 --version" python3 ;;
		pip) need pip "python3 -m pip --version" python3-pip ;;
		*) echo "check-tools: unknown tool $t" >&2; exit 2 ;;
		esac
	done
done
if [ -n "$missing" ]; then
	echo "missing:$missing" >&2
	echo "Debian and Ubuntu: apt-get install$packages" >&2
	exit 1
fi
