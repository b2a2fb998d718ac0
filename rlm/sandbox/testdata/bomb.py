"""Starts threads with stacks of argv[1] bytes until that fails, and prints how many there were."""
import os, sys, threading

threading.stack_size(int(sys.argv[1]))
done = threading.Event()
n = 0
try:
    while n < 100_000:
        threading.Thread(target=done.wait).start()
        n += 1
except (RuntimeError, MemoryError):
    pass
print(n, flush=True)
os._exit(0)
