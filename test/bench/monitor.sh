#!/usr/bin/env bash
# Prints what the monitor costs: how fast it takes frames in from a capture, how
# soon it answers a key, what it costs to look on at a tap; and then, in a real
# terminal, how a million frames open and how it keeps up with taps. The status is
# 1 when a figure of the last falls short of its goal. It needs Go, and a machine
# that does nothing else.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

go test ./store -run '^$' -bench Take -benchtime 5x
go test ./tui -run '^$' -bench Key -benchtime 20x
go test ./tui -run '^$' -bench Live -benchtime 5x
go build -trimpath -o "$dir/wirectl" .
go run ./bench/pty "$dir/wirectl"
