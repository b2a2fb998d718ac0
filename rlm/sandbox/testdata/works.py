"""Does what ordinary code does. An error ends it."""
import asyncio, bz2, ctypes, datetime, decimal, hashlib, json, lzma, mmap, os, random, re, shutil, signal, socket, sqlite3
import sys, tempfile, threading, time, zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

assert os.getcwd() == sys.argv[1], os.getcwd()
assert sorted(os.listdir(".")) == ["context"], os.listdir(".")
with open("context", "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
    assert m[:] == b"needle"
with open(sys.argv[2]) as f:
    assert f.read() == "readable"

os.makedirs("a/b")
with open("a/b/c", "w") as f:
    f.write("x" * 100_000)
os.rename("a/b/c", "a/b/d")
os.truncate("a/b/d", 10)
shutil.copyfile("a/b/d", "a/b/e")
assert os.path.getsize("a/b/e") == 10
with tempfile.TemporaryFile() as f:
    f.write(b"x")
shutil.rmtree("a")
db = sqlite3.connect("db")
db.execute("create table t (x)")
db.commit()
db.close()
os.remove("db")

with ThreadPoolExecutor(16) as pool:
    assert list(pool.map(lambda x: x * x, range(100))) == [x * x for x in range(100)]


async def twice():
    await asyncio.sleep(0.001)
    return await asyncio.to_thread(lambda: 2)


assert asyncio.run(twice()) == 2
try:
    signal.raise_signal(signal.SIGINT)
    time.sleep(60)
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    pass
os.kill(os.getpid(), signal.SIGCONT)
interrupted = threading.Timer(0.01, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
try:
    interrupted.start()
    time.sleep(60)
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    pass
interrupted.join()

assert len(os.urandom(16)) == 16 and random.random() < 1
assert os.cpu_count() >= 1 and os.sched_getaffinity(0)
assert ctypes.CDLL(None).getpid() == os.getpid()
assert dict(os.environ) == {"LC_CTYPE": "C.UTF-8", "ONLY": "this"} or dict(os.environ) == {"ONLY": "this"}, os.environ
assert hashlib.sha256(zlib.compress(lzma.compress(bz2.compress(b"x")))).digest()
datetime.datetime.now().astimezone()

pair = socket.socket(fileno=3)
assert pair.recv(100) == b"ping"
pair.sendall(b"pong")
print("works")
