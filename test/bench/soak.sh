#!/usr/bin/env bash
# Sends 10 GiB through wirectl relay and then opens 1,000 connections to one, and
# prints the most memory that each took. The status is 1 when the first takes more
# than 100 MiB, or the second more than 200.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
relay=
trap '[[ -z $relay ]] || kill "$relay" 2>/dev/null || true; rm -rf "$dir"' EXIT
go build -trimpath -o "$dir/" .
go build -o "$dir/" ./bench/peers/crowd
missed=0

# peak PID LIMIT WHAT prints the most memory that a process has taken.
peak() {
	local mib=$(($(awk '/^VmHWM/ { print $2 }' "/proc/$1/status") / 1024))
	echo "$3: $mib MiB at most"
	((mib <= $2)) || missed=1
}

mkfifo "$dir/in"
"$dir/wirectl" relay -q -- wc -c <"$dir/in" >"$dir/out" &
relay=$!
exec 3>"$dir/in"
yes '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}' | head -c 10G >&3 || true
peak "$relay" 100 "10 GiB through one relay"
exec 3>&-
wait "$relay" || true
relay=
[[ $(tr -d ' ' <"$dir/out") == 10737418240 ]] || { echo "$(cat "$dir/out") of 10737418240 bytes arrived"; missed=1; }

"$dir/crowd" listen >"$dir/unit" &
unit=$!
until [[ -s $dir/unit ]]; do sleep 0.05; done
"$dir/wirectl" relay --listen tcp://127.0.0.1:0 "tcp://$(cat "$dir/unit")" 2>"$dir/said" &
relay=$!
until grep -qs 'listening on' "$dir/said"; do sleep 0.05; done
"$dir/crowd" dial 1000 "$(sed -n 's|.*listening on tcp://||p' "$dir/said" | head -1)"
peak "$relay" 200 "1,000 controllers over TCP"
kill "$unit"
exit $missed
