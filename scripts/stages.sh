#!/bin/sh
# Runs make targets one after another and prints what each took:
# scripts/stages.sh TARGET...
set -eu
begin=$(date +%s)
report=
for stage in "$@"; do
	echo "== $stage"
	start=$(date +%s)
	if ! make --no-print-directory "$stage"; then
		echo "== $stage FAILED after $(($(date +%s) - start)) s"
		exit 1
	fi
	took=$(($(date +%s) - start))
	echo "== $stage: $took s"
	report="$report $stage $took s,"
done
echo "== all stages passed in $(($(date +%s) - begin)) s:${report%,}"
