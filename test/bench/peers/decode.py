#!/usr/bin/env python3
"""Write each JSON payload of a file of length-prefixed frames as a line."""
import json
import struct
import sys

with open(sys.argv[1], "rb", buffering=1 << 20) as frames:
    write = sys.stdout.buffer.write
    while head := frames.read(4):
        (size,) = struct.unpack(">I", head)
        message = json.loads(frames.read(size))
        line = json.dumps(message, separators=(",", ":"))
        write(line.encode() + b"\n")
