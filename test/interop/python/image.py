"""Writes an image to standard output, as a tar: this Python, sh, a few tools and the programs named as arguments, with their libraries."""
import os
import re
import subprocess
import sys
import sysconfig
import tarfile

TOO_LARGE = re.compile(r"(config-.*|dist-packages|ensurepip|idlelib|lib2to3|site-packages|tests?|tkinter|turtledemo|.*\.a|.*\.opt-[12]\.pyc)$")


def wanted(info):
    return None if TOO_LARGE.match(os.path.basename(info.name)) else info


library = sysconfig.get_path("stdlib")
interpreter = os.path.realpath(sys.executable)
tools = ["/bin/sh", "/bin/cat", "/bin/sleep", *sys.argv[1:]]
linked = [interpreter, *tools]
for folder in (library, sysconfig.get_config_var("DESTSHARED") or library):
    linked += [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".so")]
libraries = subprocess.run(["ldd", *linked], capture_output=True, text=True).stdout
files = set(re.findall(r"(/\S+) \(0x", libraries)) | {interpreter, *tools}

with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=False) as tar:
    tar.add(library, filter=wanted)
    for path in sorted(files):
        info = tar.gettarinfo(os.path.realpath(path), path)
        with open(path, "rb") as f:
            tar.addfile(info, f)
    link = tarfile.TarInfo("usr/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, interpreter
    if interpreter != "/usr/bin/python3":
        tar.addfile(link)
