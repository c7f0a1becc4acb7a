"""Kinds of process trees, from the plain one to those that try not to be found. All end by themselves after a minute."""

import sys
from dataclasses import dataclass

_HEAD = """
import os, signal, sys, time
def spare(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid
def rest():
    time.sleep(60)
    os._exit(0)
"""

_DAEMON = """
def first():
    os.setsid()
    spare(second)
def second():
    null = os.open("/dev/null", os.O_RDWR)
    for n in range(3):
        os.dup2(null, n)
    os.chdir("/")
    rest()
os.waitpid(spare(first), 0)
rest()
"""

_DOUBLE = """
os.waitpid(spare(lambda: spare(rest)), 0)
rest()
"""

_SESSIONS = """
def apart():
    os.setsid()
    spare(lambda: (os.setsid(), rest()))
    rest()
spare(apart)
rest()
"""

_STOPPED = """
def halt():
    os.kill(os.getpid(), signal.SIGSTOP)
    rest()
spare(halt)
spare(lambda: (spare(halt), halt()))
halt()
"""

_DEAF = """
for n in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, 32, 33}:
    signal.signal(n, signal.SIG_IGN)
spare(rest)
rest()
"""

# Its first thread has ended, which makes it look dead.
_HEADLESS = """
import ctypes, threading
threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""

# As many as there are tokens, however many are killed meanwhile: each forks as fast as it can.
_STORM = """
take, give = os.pipe()
os.set_blocking(take, False)
os.write(give, b"x" * int(sys.argv[1]))
def storm():
    while True:
        try:
            os.read(take, 1)
        except BlockingIOError:
            rest()
        spare(storm)
storm()
"""

# As many as the kernel lets there be, and again for each that is killed.
_ENDLESS = """
import resource
def threads(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task")) if os.stat(f"/proc/{pid}").st_uid == os.getuid() else 0
    except OSError:
        return 0
most = sum(threads(name) for name in os.listdir("/proc") if name.isdigit()) + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
end = time.monotonic() + 60
def storm():
    while time.monotonic() < end:
        try:
            spare(storm)
        except OSError:
            pass
storm()
"""

# Nobody lives for longer than it takes to fork.
_CHAIN = """
end = time.monotonic() + 60
def chain():
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
for _ in range(int(sys.argv[1])):
    spare(chain)
rest()
"""

# Above a command is its keeper, if there are keepers.
_KEEPER = """
spare(lambda: (os.setsid(), rest()))
spare(lambda: spare(rest))
sys.stdin.readline()
os.kill(os.getppid(), signal.SIGKILL)
rest()
"""


@dataclass(frozen=True)
class Shape:
    """A command that grows into a tree of at least `size` processes."""

    code: str
    size: int
    argument: int = 0

    @property
    def argv(self) -> list[str]:
        """Without the user's site packages: it starts faster."""
        return [sys.executable, "-S", "-E", "-c", _HEAD + self.code, str(self.argument)]


SHAPES = {
    "plain": Shape("spare(rest)\nrest()", 2),
    "daemon": Shape(_DAEMON, 2),
    "double-forked": Shape(_DOUBLE, 2),
    "sessions": Shape(_SESSIONS, 3),
    "stopped": Shape(_STOPPED, 4),
    "deaf": Shape(_DEAF, 2),
    "headless": Shape(_HEADLESS, 1),
    "storm": Shape(_STORM, 100, 100),
    "chain": Shape(_CHAIN, 1, 3),
}
_APART = "def storm():\n    os.getsid(0) == os.getpid() or os.setsid()"
SESSION_STORM = Shape(_ENDLESS.replace("def storm():", _APART), 1, 60)
KEEPER_KILLER = Shape(_KEEPER, 3)
ENDLESS_STORM = Shape(_ENDLESS, 1, 60)
"""Only for a user whose processes are bounded."""
