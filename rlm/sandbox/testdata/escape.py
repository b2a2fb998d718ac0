"""Tries to get out of the sandbox. Prints a line for each attempt: what it tried, and how
it was refused, or "REACHED". The facts about the machine are in argv[1], as JSON."""
import ctypes, errno, fcntl, json, os, platform, resource, signal, socket, subprocess, sys

F = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {  # x86_64, aarch64
    "ptrace": (101, 117), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "unshare": (272, 97),
    "setns": (308, 268), "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "memfd_create": (319, 279), "clone": (56, 220),
    "clone3": (435, 435), "execveat": (322, 281), "open_by_handle_at": (304, 265), "prctl": (157, 167),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "fsopen": (430, 430), "open_tree": (428, 428),
    "fchmodat2": (452, 452), "setsockopt": (54, 208), "shmget": (29, 194),
}


def call(name, *args):
    """Makes a system call, which fails as in C."""
    number = NUMBERS[name][platform.machine() == "aarch64"]
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    if libc.syscall(ctypes.c_long(number), *args) == -1:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return True


def connect(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.settimeout(20)
    s.connect(address)
    return True


def send(address):
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", address)


def spawn():
    return os.posix_spawn(sys.executable, [sys.executable, "-c", "0"], {})


def extra_descriptors():
    found = []
    for fd in range(256):
        try:
            os.fstat(fd)
        except OSError:
            continue
        if fd > F.get("open", 3):
            found.append(fd)
    return found


def wrong_clone3():
    try:
        call("clone3", 0, 0)
    except OSError as e:
        if e.errno == errno.ENOSYS:
            raise
    return True


def file_beyond_limit():
    with open("huge", "wb") as f:
        f.truncate((1 << 30) + 1)
    return True


def many_files():
    files = []
    for _ in range(1000):
        files.append(open("many", "w"))
    return True


secret, outside, host = F["secret"], F["outside"], F["pid"]
inside = F["private"]
attempts = {
    "read a secret": lambda: open(secret).read(),
    "read a secret by another way": lambda: open("../" * 20 + secret[1:]).read(),
    "list the folder of a secret": lambda: os.listdir(os.path.dirname(secret)),
    "append to a secret": lambda: open(secret, "a"),
    "empty a secret": lambda: os.truncate(secret, 0) or True,
    "empty a secret by opening it": lambda: os.open(secret, os.O_RDONLY | os.O_TRUNC),
    "chmod a secret": lambda: os.chmod(secret, 0o777) or True,
    "change the times of a secret": lambda: os.utime(secret, (1, 1)) or True,
    "chown a secret": lambda: os.chown(secret, 0, 0) or True,
    "rename a secret": lambda: os.rename(secret, "mine") or True,
    "remove a secret": lambda: os.remove(secret) or True,
    "set an attribute of a secret": lambda: os.setxattr(secret, "user.x", b"x") or True,
    "link to a secret": lambda: os.link(secret, "hard") or True,
    "leave a symbolic link": lambda: os.symlink(secret, "soft") or True,
    "leave a pipe": lambda: os.mkfifo("pipe") or True,
    "make a device": lambda: os.mknod("device", 0o20666, os.makedev(1, 1)) or True,
    "write beside the session folder": lambda: open(outside + "/new", "w"),
    "make a folder beside the session folder": lambda: os.mkdir(outside + "/folder") or True,
    "move out of the session folder": lambda: open("a", "w") and os.rename("a", outside + "/a") or True,
    "write to the interpreter": lambda: open(os.__file__, "a"),
    "write beside the interpreter": lambda: open(sys.prefix + "/new", "w"),
    "write to what may be read": lambda: open(F["readable"], "a") if inside else open(F["readable_outside"], "a"),
    "write to /tmp": lambda: open("/tmp/new", "w"),
    "write to /": lambda: open("/new", "w"),
    "write to /dev": lambda: open("/dev/new", "w"),
    "read /etc/passwd": lambda: open("/etc/passwd").read(),
    "list /etc": lambda: os.listdir("/etc"),
    "list /root": lambda: os.listdir("/root"),
    "list /home": lambda: os.listdir("/home"),
    "list /sys": lambda: os.listdir("/sys"),
    "read the kernel's messages": lambda: open("/dev/kmsg").read(1),
    "read a disk": lambda: open("/dev/vda", "rb").read(1),
    "write a setting of the kernel": lambda: open("/proc/sys/kernel/core_pattern", "w"),
    "trigger sysrq": lambda: open("/proc/sysrq-trigger", "w"),
    "open a TCP connection": lambda: connect(socket.AF_INET, ("127.0.0.1", F["tcp"])),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)),
    "send a datagram": lambda: send(("127.0.0.1", F["udp"])),
    "resolve a name": lambda: socket.getaddrinfo("example.com", 80),
    "open an abstract Unix socket": lambda: connect(socket.AF_UNIX, "\0" + F["abstract"]),
    "open a Unix socket": lambda: connect(socket.AF_UNIX, F["unix"]),
    "open a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "make a pair of datagram sockets": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "set an option of a socket": lambda: call("setsockopt", 3, 1, 2, ctypes.byref(ctypes.c_int(1)), 4),
    "connect the socket that is there": lambda: socket.socket(fileno=os.dup(3)).connect("\0" + F["abstract"]) or True,
    "read the memory of the host": lambda: open(f"/proc/{host}/mem", "rb").read(1),
    "read the environment of the host": lambda: open(f"/proc/{host}/environ").read(),
    "read the environment of the parent": lambda: open(f"/proc/{os.getppid()}/environ").read(),
    "find a secret in the own environment": lambda: any("SANDBOX" in k for k in os.environ),
    "read memory by process_vm_readv": lambda: call("process_vm_readv", host, 0, 0, 0, 0, 0),
    "write memory by process_vm_writev": lambda: call("process_vm_writev", host, 0, 0, 0, 0, 0),
    "trace the host": lambda: call("ptrace", 16, host, 0, 0),
    "be traced": lambda: call("ptrace", 0, 0, 0, 0),
    "signal the host": lambda: os.kill(host, 0) or True,
    "signal everybody": lambda: os.kill(-1, 0) or True,
    "signal the group": lambda: os.kill(0, 0) or True,
    "have the kernel signal the host": lambda: fcntl.fcntl(3, 8, host) or True,
    "open a process": lambda: call("pidfd_open", host, 0),
    "take a descriptor": lambda: call("pidfd_getfd", 0, 0, 0),
    "change the priority of the host": lambda: os.setpriority(os.PRIO_PROCESS, host, 10) or True,
    "bind the host to a processor": lambda: os.sched_setaffinity(host, {0}) or True,
    "limit the host": lambda: resource.prlimit(host, resource.RLIMIT_NOFILE),
    "fork": lambda: os.fork() or os._exit(0),
    "fork in C": lambda: call("clone", signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "start a process": lambda: subprocess.run([sys.executable, "-c", "0"]),
    "start a process by posix_spawn": spawn,
    "clone3 other than by ENOSYS": wrong_clone3,
    "execute a file by descriptor": lambda: call("execveat", 0, 0, 0, 0, 0x1000),
    "become root": lambda: os.setuid(0) or True,
    "change the group": lambda: os.setgid(0) or True,
    "mount": lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, 0),
    "mount by fsopen": lambda: call("fsopen", b"tmpfs", 0),
    "copy a mount": lambda: call("open_tree", -100, b"/", 1),
    "unmount": lambda: call("umount2", b"/proc", 2),
    "change the root": lambda: call("pivot_root", b".", b"."),
    "chroot": lambda: os.chroot(".") or True,
    "make a user namespace": lambda: call("unshare", 0x10000000),
    "make a network namespace": lambda: call("unshare", 0x40000000),
    "clone a thread into a user namespace": lambda: call("clone", 0x10000000 | 0x10000, 0, 0, 0, 0),
    "enter a namespace": lambda: call("setns", 0, 0),
    "bpf": lambda: call("bpf", 0, 0, 0),
    "userfaultfd": lambda: call("userfaultfd", 1),
    "perf_event_open": lambda: call("perf_event_open", 0, 0, -1, -1, 0),
    "keyctl": lambda: call("keyctl", 0, -3, 1, 0, 0),
    "io_uring_setup": lambda: call("io_uring_setup", 1, 0),
    "kexec_load": lambda: call("kexec_load", 0, 0, 0, 0),
    "init_module": lambda: call("init_module", 0, 0, b""),
    "finit_module": lambda: call("finit_module", 0, b"", 0),
    "open_by_handle_at": lambda: call("open_by_handle_at", -100, 0, 0),
    "chmod by a newer call": lambda: call("fchmodat2", -100, secret.encode(), 0o777, 0),
    "a file without a name": lambda: call("memfd_create", b"x", 0),
    "shared memory": lambda: call("shmget", 0, 4096, 0o1600) or True,
    "outlive the host": lambda: call("prctl", 1, 0, 0, 0, 0),
    "gain privileges again": lambda: call("prctl", 38, 0, 0, 0, 0),
    "type into a terminal": lambda: fcntl.ioctl(0, 0x5412, b"x") or True,
    "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1)) or True,
    "find descriptors of others": extra_descriptors,
    "write a huge file": file_beyond_limit,
    "open many files": many_files,
    "take much memory": lambda: bytearray(8 << 30),
}
if platform.machine() == "x86_64":
    attempts["call by the x32 table"] = lambda: libc.syscall(ctypes.c_long(0x40000000 | 39)) > 0

for what, attempt in attempts.items():
    try:
        result = attempt()
    except BaseException as e:
        print(f"{what}: {type(e).__name__}", flush=True)
        continue
    print(f"{what}: {'REACHED ' + repr(result)[:80] if result else 'nothing'}", flush=True)
print("end")
