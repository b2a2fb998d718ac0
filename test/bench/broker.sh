#!/usr/bin/env bash
# Prints how fast the broker is as a Markdown table of figures and their goals, and
# behind it what was measured of each server. A figure is the median of three
# rounds, or fifteen, in which the broker and its peers take turns: one made of Python's
# socketserver, net/http's ReverseProxy, and Portkey's gateway from npm.
#
#   bench/broker.sh
#   ROUND=200ms bench/broker.sh      rounds of another length, as a smoke test
#
# It needs Go, python3, taskset, and npm for Portkey. It takes about three minutes. The status
# is 1 when a figure falls short of its goal.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/wirectl-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
tools/build "$dir/"
go build -o "$dir/broker" ./bench/broker
export PATH="$dir:$PATH" PEERS=$PWD/bench/peers PORTKEY=
if ! command -v npm >/dev/null; then
	echo "npm is not there: Portkey is left out" >&2
elif npm install --silent --no-audit --no-fund --prefix "$dir/npm" @portkey-ai/gateway@1.15.2 >"$dir/npm.log" 2>&1; then
	PORTKEY=$dir/npm/node_modules/@portkey-ai/gateway/build/start-server.js
else
	echo "Portkey is left out, since npm cannot install it:" >&2
	cat "$dir/npm.log" >&2
fi

cat <<END
$(go version | cut -d' ' -f3-), $(uname -sr), $(nproc) processors, shared by servers and clients.
rlm prompts are 200 bytes, or 1 MB; the OpenAI body is 1 KiB. rlm is answered by the
mock provider, which waits for nothing; the OpenAI door asks a backend over HTTP that
answers at once, as its peers do: one that does nothing but answer, beside which the
difference between the proxies shows. The broker has no tap open.

END
status=0
broker load "${ROUND:-1500ms}" || status=1
cat <<END

One client, whose round trip goes to a mock provider on net/http that reads the JSON it
gets, and to the backend that does nothing. Everything is on one processor:

END
taskset -c 0 broker trips "${ROUND:-1500ms}" || status=1
printf '\nThe same with all processors, where waking another one is most of it:\n\n'
broker trips "${ROUND:-1500ms}" || status=1
exit $status
