"""Packs and unpacks rlm frames with nothing but the standard library.

    rlm.py requests | responses    writes frames of that direction
    rlm.py unpack                  reads frames and writes a payload a line
"""

import json
import struct
import sys

REQUESTS = [
    {"correlation_id": "one", "model": "small", "prompt": "what is 6 × 7?"},
    {"correlation_id": "two", "prompts": ["a", {"role": "user"}, [{"role": "user", "content": "\u2028"}]]},
    {"correlation_id": "three", "prompt": ""},
]


def completion(prompt, response):
    """Returns one chat_completion, in the order of keys that brokers write."""
    usage = {"total_calls": 1, "total_input_tokens": 3, "total_output_tokens": 1}
    return {
        "root_model": "small",
        "prompt": prompt,
        "response": response,
        "usage_summary": {"model_usage_summaries": {"small": usage}},
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "execution_time": 0.125,
    }


def response(request):
    prompts = request.get("prompts", [request.get("prompt")])
    results = [{"error": None, "chat_completion": completion(p, "42")} for p in prompts]
    return {"correlation_id": request["correlation_id"], "error": None, "results": results}


def pack(message):
    payload = json.dumps(message).encode()
    return struct.pack(">I", len(payload)) + payload


def unpack(stream):
    while prefix := stream.read(4):
        (length,) = struct.unpack(">I", prefix)
        payload = stream.read(length)
        if len(payload) != length:
            sys.exit("the stream was cut inside a frame")
        json.loads(payload)
        yield payload


def main():
    out = sys.stdout.buffer
    match sys.argv[1]:
        case "requests":
            out.write(b"".join(map(pack, REQUESTS)))
        case "responses":
            out.write(b"".join(pack(response(r)) for r in REQUESTS))
        case "unpack":
            out.writelines(payload + b"\n" for payload in unpack(sys.stdin.buffer))


if __name__ == "__main__":
    main()
