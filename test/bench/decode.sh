#!/usr/bin/env bash
# Prints how fast wirectl decode is as a Markdown table of ratios: each is the
# median of five rounds in which wirectl and its peer take turns on the same
# frames, with the smallest and the largest round behind it.
#
#   bench/decode.sh [PATTERN]     only the figures whose name matches PATTERN
#   SCALE=64 bench/decode.sh      corpora of a 64th of the size, as a smoke test
#   SKIP_10G=1 bench/decode.sh    without the 10 GiB of standard input
#
# It needs Go and taskset; jq, python3 and tshark where they are to be compared
# with. It takes 4 GiB of /dev/shm or, where that has no room, of TMPDIR. The
# status is 1 when a figure falls short of its goal.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly need_kib=$((4 * 1024 * 1024))

# free_kib DIR prints how much room DIR has.
free_kib() { df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print $4 }'; }

# What /dev/shm holds is memory, of which the programs need some as well.
scratch=${TMPDIR:-/tmp}
if [[ -w /dev/shm && $(free_kib /dev/shm) -gt $need_kib &&
	$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo) -gt $((2 * need_kib)) ]]; then
	scratch=/dev/shm
fi
dir=$(mktemp -d "$scratch/wirectl-bench.XXXXXX")
# The programs are not on $scratch, which may be memory: a program is started from
# a disk, from which the system brings in its pages in larger pieces.
bin=$(mktemp -d "${TMPDIR:-/tmp}/wirectl-bench.XXXXXX")
trap 'rm -rf "$dir" "$bin"' EXIT

tools/build "$bin/"
CGO_ENABLED=0 go build -o "$bin/" ./bench/corpus ./bench/run ./bench/peers/...
cp bench/peers/decode.py "$bin/"
if command -v tshark >/dev/null; then
	cp bench/peers/latis-tshark proto/latis/v1/latis.proto "$bin/"
fi
export PATH="$bin:$PATH"

cat <<END
$(go version | cut -d' ' -f3-), $(uname -sr), $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), files on $scratch.
Payloads are 100 B to 4 KiB, all sizes equally likely; their text has a character
outside plain ASCII, or one that JSON escapes, about every 36 bytes. A ratio compares
slopes, the time for a large file less that for a small one (1 GiB and 128 MiB; 256 and
32 MiB where the peer is Python, 64 and 8 MiB where it is jq, 4 and 0.5 MiB where it is
tshark), so start-up does not count. Figures are of one core unless they say two.

END
if [[ ${SCALE:-1} != 1 ]]; then
	printf 'All sizes are divided by %s: these figures are a smoke test.\n\n' "$SCALE"
fi
"$bin/run" -dir "$dir" -scale "${SCALE:-1}" -skip-10g="${SKIP_10G:-0}" -only "${1:-}"
