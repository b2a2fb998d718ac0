#!/usr/bin/env bash
# Prints how wirectl relay compares with cat, socat and a poll loop in C, as a
# Markdown table of ratios: medians of rounds in which all take turns.
#
# What is measured is what stands between two ends, so the ends do not copy: the
# source splices the pages of a file into its pipe, of 16 MiB again and again, since
# what a program sends is what it has just made and a cache holds; the drain
# throws pages away, and the child that everything goes there and back through
# returns the pages that it is sent. The same ends serve everybody, and all pipes
# hold 1 MiB, also those between the cats. Who reads such a page copies as much as
# from any other pipe; the relay passes it on, and copies it once where somebody
# looks on. What it is worth where the ends copy, too, is told below the figures:
# there, they bound it. There and back, socat is measured as it is, with 8 KiB, and
# for information with 64 KiB; with more it may wait for its child for good. What a
# capture takes is measured behind a cat, as programs that copy are: between ends
# that do not, writing the file alone, by dd, takes more than twice as long as the
# relay, which is told below, too.
#
# The bytes are compared at the far end in a round that is not timed, and counted
# there in those that are.
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

rounds=${ROUNDS:-5} mib=${MIB:-1024} pings=${PINGS:-50000}
scratch=${TMPDIR:-/tmp}
[[ -w /dev/shm ]] && scratch=/dev/shm
dir=$(mktemp -d "$scratch/wirectl-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
tools/build "$dir/bin/"
go build -o "$dir/bin/" ./bench/corpus
cc -O2 -o "$dir/bin/peer" bench/peers/relay.c
export PATH="$dir/bin:$PATH" XDG_RUNTIME_DIR="$dir"
corpus -bytes $((16 << 20)) >"$dir/corpus" 2>/dev/null
times=$((mib / 16))
size=$((times * $(stat -c %s "$dir/corpus")))
source="peer source $dir/corpus"
mapfile -t copies < <(yes "$dir/corpus" | head -n "$times")

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
# clock COMMAND prints how many seconds passed until the last byte had arrived that
# a shell command sends to a drain. How long the command takes to end after that is
# left out: socat waits half a second for a child like ours.
clock() {
	local start got at
	start=$(date +%s.%N)
	read -r got at < <(timeout 120 bash -c "$1" 2>&1 | tail -1)
	[[ $got == "$size" ]] || { echo "$1: $got of $size bytes arrived" >&2; exit 1; }
	awk -v a="$start" -v b="$at" 'BEGIN { print b - a }'
}
# whole COMMAND prints how many seconds passed until it had ended.
whole() {
	local start
	start=$(date +%s.%N)
	clock "$1" >/dev/null
	awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'
}
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

# The contenders, of which each takes its standard input to DRAIN, a command.
cats() { echo "peer wide cat | peer wide cat | peer wide cat | $1"; }
socat1() { echo "socat -u -b1048576 STDIN STDOUT | $1"; }
relay1() { echo "wirectl relay -q -- $1"; }
plain1() { echo "wirectl relay -q --no-tap -- $1"; }
file1() { echo "dd of=$dir/capture bs=256k iflag=fullblock status=none && echo $size 0"; }
capture1() { echo "wirectl relay -q --capture-policy block --capture $dir/capture -- $1"; }
socat2() { echo "socat - EXEC:'peer mirror',pipes | $1"; }
wide2() { echo "socat -b65536 - EXEC:'peer mirror',pipes | $1"; }
relay2() { echo "wirectl relay -q -- peer mirror | $1"; }
contenders="cats socat1 relay1 plain1 capture1 socat2 wide2 relay2"
# clockOf NAME prints how: a capture is done when it is written.
clockOf() { if [[ $1 == capture* ]]; then echo whole; else echo clock; fi; }

want=$($source 8 | md5sum)
for name in $contenders; do
	got=$(timeout 120 bash -c "$source 8 | $($name md5sum)")
	[[ $got == "$want" ]] || { echo "$name: the bytes differ" >&2; exit 1; }
done

for ((i = 0; i < rounds; i++)); do
	for name in $contenders; do
		note "$name" "$("$(clockOf "$name")" "$source $times | $($name 'peer drain')")"
		rm -f "$dir"/capture*
	done
	note file1 "$(whole "$source $times | $(file1)")"
	rm -f "$dir"/capture*
	note copied-cats "$(clock "cat ${copies[*]} | cat | cat | peer drain")"
	note copied-relay1 "$(clock "cat ${copies[*]} | $(relay1 'peer drain')")"
	note copied-capture1 "$(whole "cat ${copies[*]} | $(capture1 'peer drain')")"
	rm -f "$dir"/capture*
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
row "one way from a cat, tap and capture (policy block): to that without capture" "$(ratio "$(of copied-relay1)" "$(of copied-capture1)")" ">=" 0.5
row "there and back through a child: to socat - EXEC" "$(ratio "$(of socat2)" "$(of relay2)")" ">=" 2.2
row "added to a 100-byte round trip on one processor, p50, µs" "$(added pinned relay)" "<=" 9
row "the same with tap and capture, to that without" "$(ratio "$(of 'pinned capture 50')" "$(of 'pinned relay 50')")" "<=" 1.5
row "p99 on one processor, to that of socat" "$(ratio "$(of 'pinned relay 99')" "$(of 'pinned socat 99')")" "<=" 1
echo
echo "| 100-byte round trip, µs | p50, one processor | p99 | p50, all processors | p99 |"
echo "| --- | --- | --- | --- | --- |"
for name in direct poll socat relay capture; do
	printf '| %s | %s | %s | %s | %s |\n' "$name" "$(of "pinned $name 50")" "$(of "pinned $name 99")" "$(of "free $name 50")" "$(of "free $name 99")"
done
echo
echo "For information, without a goal:"
echo
echo "- one way without a tap, to cat | cat | cat: $(ratio "$(of cats)" "$(of plain1)")"
echo "- one way into a file of the same place by dd, which nobody else takes, to the relay without capture: $(ratio "$(of relay1)" "$(of file1)")"
echo "- one way, tap and capture, to that without capture: $(ratio "$(of relay1)" "$(of capture1)")"
echo "- the same, to that dd: $(ratio "$(of file1)" "$(of capture1)")"
echo "- there and back, to socat with 64 KiB buffers: $(ratio "$(of wide2)" "$(of relay2)")"
echo "- one way, tap open, where a cat is the producer and copies, too: $(ratio "$(of copied-cats)" "$(of copied-relay1)") times cat | cat | cat, of which that cat is one"

[[ -z ${SOAK:-} ]] || bench/soak.sh
exit $missed
