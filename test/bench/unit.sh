#!/usr/bin/env bash
# Prints how fast wirectl unit and wirectl theory serve are, as a Markdown table.
# A ratio is the median of five rounds in which the unit and a bare echo take
# turns with the same bytes, with the smallest and the largest round behind it.
#
#   bench/unit.sh            all figures
#   N=500 bench/unit.sh      fewer round trips, as a smoke test
#
# It needs Go and taskset, and uses two cores. The status is 1 when a figure falls
# short of its goal.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tools/build "$dir/"
go build -o "$dir/unit-bench" ./bench/unit
export PATH="$dir:$PATH"

printf '%s, %s, %s, two cores shared by both ends.\n\n' "$(go version | cut -d' ' -f3-)" "$(uname -sr)" \
	"$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
taskset -c 0,1 unit-bench -n "${N:-20000}"
