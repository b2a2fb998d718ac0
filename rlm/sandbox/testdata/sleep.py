"""Ignores what can be ignored, and never ends."""
import signal, time

for s in range(1, 65):
    try:
        signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("up", flush=True)
while True:
    time.sleep(1000)
