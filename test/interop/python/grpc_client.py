"""Talks to a Latis unit at HOST:PORT by grpcio, without a schema: writes the answers to a
prompt, and then the code with which the call ends."""

import sys
import threading

import grpc

PROMPT = b"\x0a\x011\x52\x04\x0a\x02hi"
ended = threading.Event()


def requests():
    yield PROMPT
    ended.wait()


channel = grpc.insecure_channel(sys.argv[1])
call = channel.stream_stream("/latis.v1.LatisService/Connect")(requests(), compression=grpc.Compression.Gzip)
try:
    for answer in call:
        print("answer", answer.hex(), flush=True)
except grpc.RpcError as error:
    print("ended", error.code().name, flush=True)
ended.set()
