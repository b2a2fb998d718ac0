#!/usr/bin/env bash
# Prints how fast the broker is, beside its peers in the same run: a broker of
# Python's socketserver, net/http's ReverseProxy and Portkey's gateway from npm.
# Servers and clients share the machine's processors, so only ratios mean much.
#
#   bench/broker.sh
#
# It needs Go, and python3, and npm for Portkey. It takes about two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d "${TMPDIR:-/tmp}/wirectl-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT
tools/build "$dir/wirectl"
go build -o "$dir/broker" ./bench/broker
export PATH="$dir:$PATH" PEERS=bench/peers PORTKEY=
if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix "$dir/npm" @portkey-ai/gateway@1.15.2 >/dev/null 2>&1; then
	PORTKEY=$dir/npm/node_modules/@portkey-ai/gateway/build/start-server.js
fi
echo "$(go version | cut -d' ' -f3-), $(uname -sr), $(nproc) processors"
broker run
