#!/usr/bin/env bash
# Prints how wirectl relay compares with cat, socat and a poll loop in C, as a
# Markdown table of ratios: medians of rounds in which all take turns. The bytes
# are counted at the far end, or compared there.
#
#   bench/relay.sh
#   ROUNDS=3 MIB=256 bench/relay.sh     fewer rounds, with less in each
#   SOAK=1 bench/relay.sh               also 10 GiB, and 1,000 controllers
#
# It needs Go, a C compiler, socat and taskset, and installs none of them. The
# status is 1 when a figure falls short of its goal.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in go cc socat taskset; do
	command -v "$program" >/dev/null || { echo "bench/relay.sh needs $program" >&2; exit 2; }
done

rounds=${ROUNDS:-5} mib=${MIB:-1024} pings=${PINGS:-20000}
scratch=${TMPDIR:-/tmp}
[[ -w /dev/shm ]] && scratch=/dev/shm
dir=$(mktemp -d "$scratch/wirectl-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
tools/build "$dir/bin/"
go build -o "$dir/bin/" ./bench/corpus
cc -O2 -o "$dir/bin/peer" bench/peers/relay.c
export PATH="$dir/bin:$PATH" XDG_RUNTIME_DIR="$dir"
corpus -bytes $((mib << 20)) >"$dir/corpus" 2>/dev/null
size=$(stat -c %s "$dir/corpus")

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
# clock COMMAND prints how many seconds a shell command took whose output ends
# with the number of bytes that arrived.
clock() {
	local start end got
	start=$(date +%s.%N)
	got=$(timeout 120 bash -c "$1" 2>&1 | tail -1)
	end=$(date +%s.%N)
	[[ $got == "$size" ]] || { echo "$1: $got of $size bytes arrived" >&2; exit 1; }
	awk -v a="$start" -v b="$end" 'BEGIN { print b - a }'
}
# both COMMAND… prints how many seconds the bytes took there and back.
both() { timeout 120 peer both "$size" "$@"; }
# pinned COMMAND… prints p50 and p99 of a round trip, all on one processor.
pinned() { timeout 120 taskset -c 0 peer ping "$pings" "$@"; }
free() { timeout 120 peer ping "$pings" "$@"; }

missed=0
# row NAME FIGURE OP GOAL prints a line of the table.
row() {
	local met=yes
	awk -v a="$2" -v b="$4" "BEGIN { exit !(a $3 b) }" || { met=no; missed=1; }
	printf '| %s | %s | %s %s | %s |\n' "$1" "$2" "$3" "$4" "$met"
}

declare -A t
note() { t[$1]+="$2"$'\n'; }
of() { median <<<"${t[$1]%$'\n'}"; }

for ((i = 0; i < rounds; i++)); do
	note cats "$(clock "cat $dir/corpus | cat | cat | peer drain")"
	note socat1 "$(clock "cat $dir/corpus | socat -u -b1048576 STDIN STDOUT | peer drain")"
	note relay1 "$(clock "cat $dir/corpus | wirectl relay -q -- peer drain")"
	note plain1 "$(clock "cat $dir/corpus | wirectl relay -q --no-tap -- peer drain")"
	note capture1 "$(clock "cat $dir/corpus | wirectl relay -q --capture-policy block --capture $dir/capture -- peer drain; rm $dir/capture*" | tail -1)"
	note socat2 "$(both socat -b65536 - EXEC:'peer echo',pipes)"
	note relay2 "$(both wirectl relay -q -- peer echo)"
	for how in pinned free; do
		while read -r name p50 p99; do note "$how $name 50" "$p50"; note "$how $name 99" "$p99"; done <<-END
			direct $($how peer echo)
			poll $($how peer poll peer echo)
			socat $($how socat - EXEC:'peer echo',pipes)
			relay $($how wirectl relay -q --no-tap -- peer echo)
			capture $($how wirectl relay -q --capture "$dir/capture" -- peer echo)
		END
	done
done

added() { awk -v a="$(of "$1 $2 50")" -v b="$(of "$1 direct 50")" 'BEGIN { printf "%.2f", a - b }'; }
echo "$(go version | cut -d' ' -f3-), $(uname -sr), $(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $rounds rounds, $mib MiB of len32 frames, $pings round trips."
echo
echo "| figure | wirectl | goal | met |"
echo "| --- | --- | --- | --- |"
row "one way, tap open: throughput to that of cat \| cat \| cat" "$(ratio "$(of cats)" "$(of relay1)")" ">=" 1.8
row "the same, to socat with 1 MiB buffers" "$(ratio "$(of socat1)" "$(of relay1)")" ">=" 2
row "one way, tap and capture (policy block): to that without capture" "$(ratio "$(of relay1)" "$(of capture1)")" ">=" 0.5
row "there and back through a child: to socat - EXEC (64 KiB; with more it hangs)" "$(ratio "$(of socat2)" "$(of relay2)")" ">=" 2.2
row "added to a 100-byte round trip on one processor, p50, µs" "$(added pinned relay)" "<=" 9
row "the same with tap and capture, to that without" "$(ratio "$(of 'pinned capture 50')" "$(of 'pinned relay 50')")" "<=" 1.5
row "p99 on one processor, to that of socat" "$(ratio "$(of 'pinned relay 99')" "$(of 'pinned socat 99')")" "<=" 1
echo
echo "| 100-byte round trip, µs | p50, one processor | p99 | p50, all processors | p99 |"
echo "| --- | --- | --- | --- | --- |"
for name in direct poll socat relay capture; do
	printf '| %s | %s | %s | %s | %s |\n' "$name" "$(of "pinned $name 50")" "$(of "pinned $name 99")" "$(of "free $name 50")" "$(of "free $name 99")"
done
printf '\nOne way without a tap: %s times cat | cat | cat.\n' "$(ratio "$(of cats)" "$(of plain1)")"

[[ -z ${SOAK:-} ]] || bench/soak.sh
exit $missed
