"""A place where no user namespace can be made, for real: inside one that has none to give."""

import os
import subprocess
import sys

_SCRIPT = """
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
told, tell = os.pipe()
us, uid, gid = os.getpid(), os.getuid(), os.getgid()
helper = os.fork()
if helper == 0:  # stays outside, where root may map everybody
    os.read(told, 1)
    for name, own in (("setgroups", None), ("uid_map", uid), ("gid_map", gid)):
        text = "deny" if own is None else f"{own} {own} 1" if uid else "0 0 4294967295"
        if own is not None or uid:
            with open(f"/proc/{us}/{name}", "w") as file:
                file.write(text)
    os._exit(0)
if libc.unshare(0x10000000 | 0x00020000):
    sys.exit(f"no user namespace for the test itself: {os.strerror(ctypes.get_errno())}")
os.write(tell, b"x")
os.waitpid(helper, 0)
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Python with these arguments, in such a place."""
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT, sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
