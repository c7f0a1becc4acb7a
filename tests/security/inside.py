"""The attacker's side: functions that run in a sandbox, as `python3 -c`, and tell in JSON what they found.

Nothing but the standard library is imported, and nothing here is asserted: what is right is decided outside.
"""

import array
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

_TIOCSTI = 0x5412


def _word(call: Callable[..., object], *arguments: object) -> str:
    """How a call ends: `ok`, or the name of its error."""
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def _in_a_child(call: Callable[..., str], *arguments: object) -> str:
    """The same of something that may end the process, or leave it as something else."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.write(writing, call(*arguments).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)
    told = os.read(reading, 100).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return told or signal.Signals(os.WTERMSIG(status)).name


def _system_call(number: int, *arguments: object) -> int:
    """A raw one. A list is so many zero bytes (in it, a number of them) or a text; -1 raises."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(ctypes.c_long(number), *map(_argument, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def _argument(value: object) -> object:
    if isinstance(value, list):
        return ctypes.create_string_buffer(value[0]) if isinstance(value[0], int) else value[0].encode()
    return ctypes.c_long(value)  # type: ignore[arg-type]


def _call_and_end(number: int, arguments: list[object]) -> str:
    parent = os.getpid()
    try:
        _system_call(number, *arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    if os.getpid() != parent:  # it was a way to fork, and this is the new one
        os._exit(0)
    return "ok"


def system_calls(calls: dict[str, list[object]]) -> dict[str, str]:
    """Each is a number and its arguments; what becomes of it, in a process of its own."""
    return {name: _in_a_child(_call_and_end, call[0], call[1:]) for name, call in calls.items()}


def bound(pids: list[int | str]) -> dict[str, str]:
    """What becomes of a bound on a process of the sandbox; 0 is this one."""
    found = {}
    for pid in pids:
        number = os.getppid() if pid == "parent" else int(pid)
        for limit in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
            found[f"{pid} {limit}"] = _word(resource.prlimit, number, limit, (1000, 1000))
    return found


def send_descriptors(most: int) -> None:
    """Send one's own descriptors to oneself, and receive none. They are on their way for as long as this runs."""
    kept, sent, word = [], 0, "ok"
    try:
        while sent < most:
            kept.append(socket.socketpair())
            socket.send_fds(kept[-1][0], [b"x"], [0] * 100)
            sent += 100
    except OSError as error:
        word = errno.errorcode[error.errno or 0]
    print(sent, word, flush=True)
    time.sleep(1000)


def new_namespaces(numbers: dict[str, int], flags: dict[str, int]) -> dict[str, str]:
    """By each call that can make one: `unshare`, `clone`, and `clone3`, whose flags are in memory."""
    found = {}
    for name, flag in flags.items():
        found[f"unshare {name}"] = _in_a_child(_call_and_end, numbers["unshare"], [flag])
        found[f"clone {name}"] = _in_a_child(_call_and_end, numbers["clone"], [flag | 17, 0, 0, 0, 0])
        found[f"clone3 {name}"] = _in_a_child(_clone3, numbers["clone3"], flag)
    return found


def _clone3(number: int, flags: int) -> str:
    arguments = ctypes.create_string_buffer(struct.pack("<11Q", flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), arguments, ctypes.c_long(88))
    if result == 0:
        os._exit(0)
    return "ok" if result > 0 else errno.errorcode[ctypes.get_errno()]


def by_machine_code(codes: dict[str, str]) -> dict[str, str]:
    """Run these bytes as a function, each in a process of its own: how it ends."""
    return {name: _in_a_child(_run_code, bytes.fromhex(code)) for name, code in codes.items()}


def _run_code(code: bytes) -> str:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return "ok" if result >= 0 else errno.errorcode.get(-result, str(result))


def read(paths: list[str]) -> dict[str, str]:
    """What becomes of reading each, file or directory."""
    return {path: _word(_read, path) for path in paths}


def _read(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.listdir(fd)
        else:
            os.read(fd, 1)
    finally:
        os.close(fd)


def open_to_write(paths: list[str]) -> dict[str, str]:
    """What becomes of opening each existing file to write. Nothing is written."""
    return {path: _word(_open_to_write, path) for path in paths}


def _open_to_write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def create_in(directories: list[str]) -> dict[str, str]:
    """What becomes of making a file in each."""
    return {directory: _word(_create, f"{directory}/probe") for directory in directories}


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)


def list_directory(path: str) -> list[str]:
    """Names, or none if it cannot be listed."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def mounts() -> list[dict[str, str]]:
    """Every mount: where, of what kind, its options, and what can be told of its size."""
    found = []
    with open("/proc/self/mounts", encoding="utf-8") as lines:
        for line in lines:
            _, where, kind, options, *_ = line.split()
            size = os.statvfs(where).f_blocks * os.statvfs(where).f_frsize
            found.append({"where": where, "kind": kind, "options": options, "size": str(size)})
    return found


def fill(directories: list[str], most: int) -> dict[str, list[object]]:
    """Write to each until it is full, and at most so many bytes: how many there were, and what ended it."""
    found: dict[str, list[object]] = {}
    for directory in directories:
        written, word = 0, "ok"
        with open(f"{directory}/full", "wb", buffering=0) as file:
            while written < most and word == "ok":
                try:
                    written += file.write(bytes(1 << 20))
                except OSError as error:
                    word = errno.errorcode[error.errno or 0]
        os.unlink(f"{directory}/full")
        found[directory] = [written, word]
    return found


def statuses(fields: list[str]) -> dict[str, list[str]]:
    """Of every process that can be seen: its command, and these lines of its status."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as lines:
            told = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
            found[pid] = [told["Name"], *(told[field] for field in fields)]
    return found


def everything_told_of_processes() -> str:
    """Command lines and environments of all processes, as far as they can be read."""
    found = ""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            with suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
                found += f"{pid} {name} {file.read()!r}\n"
    return found


def signal_processes(pids: list[int]) -> dict[str, str]:
    """What becomes of asking whether each is there."""
    return {str(pid): _word(os.kill, pid, 0) for pid in pids}


def queue_signal(pid: int, number: int) -> str:
    """Send a signal that claims to come from outside: from process 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    information = struct.pack("<iiiiii", number, 0, -1, 0, 0, 0).ljust(128, b"\0")
    call = {"x86_64": 129, "aarch64": 138}[os.uname().machine]
    return "ok" if libc.syscall(call, pid, number, information) == 0 else errno.errorcode[ctypes.get_errno()]


def namespaces(names: list[str]) -> dict[str, str]:
    """Ours, by their numbers."""
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in names}


def descriptors() -> dict[str, str]:
    """The open ones of this process, and where they lead."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


def identity() -> dict[str, object]:
    """Who we are, what a first process's session is, and what our system is called."""
    with open("/proc/self/cgroup", encoding="utf-8") as lines:
        groups = lines.read()
    return {
        "ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
        "session of 1": os.getsid(1),
        "host": os.uname().nodename,
        "cgroups": groups,
        "terminal": _word(lambda: os.close(os.open("/dev/tty", os.O_RDWR))),
    }


def become(uid: int) -> dict[str, str]:
    """What becomes of taking this user and group on, by every call."""
    calls: dict[str, Callable[[], object]] = {
        "setuid": lambda: os.setuid(uid),
        "setgid": lambda: os.setgid(uid),
        "setresuid": lambda: os.setresuid(uid, uid, uid),
        "setreuid": lambda: os.setreuid(uid, uid),
        "setgroups": lambda: os.setgroups([uid]),
    }
    return {name: _in_a_child(_word, call) for name, call in calls.items()}


def type_into_terminal() -> dict[str, str]:
    """Put a key into our own terminal's input; also with a bit that the kernel does not look at. And ask its size."""
    return {
        "plain": _word(lambda: fcntl.ioctl(0, _TIOCSTI, b"x")),
        "high bit": _ioctl(0, _TIOCSTI | 1 << 32),
        "size": _word(lambda: fcntl.ioctl(0, 0x5413, bytes(8))),
    }


def _ioctl(fd: int, request: int) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p]
    return "ok" if libc.ioctl(fd, request, b"x") == 0 else errno.errorcode[ctypes.get_errno()]


def make_nodes(directory: str) -> dict[str, str]:
    """Kinds of files that are no plain ones."""
    kinds = {
        "null device": (stat.S_IFCHR, os.makedev(1, 3)),
        "disk": (stat.S_IFBLK, os.makedev(8, 0)),
        "whiteout": (stat.S_IFCHR, 0),
        "pipe": (stat.S_IFIFO, 0),
        "file": (stat.S_IFREG, 0),
    }
    return {
        name: _word(os.mknod, f"{directory}/{name}", kind | 0o600, device) for name, (kind, device) in kinds.items()
    }


def connect(targets: list[list[object]]) -> dict[str, str]:
    """What becomes of connecting: a family and an address each. Datagrams are sent to a port of `udp`."""
    return {str(target): _word(_connect, target) for target in targets}


def _connect(target: list[object]) -> None:
    family, address = target
    kind = socket.SOCK_DGRAM if family == "udp" else socket.SOCK_STREAM
    number = socket.AF_UNIX if family == "unix" else socket.AF_INET6 if ":" in str(address) else socket.AF_INET
    with socket.socket(number, kind) as client:
        client.settimeout(10)
        if isinstance(address, str):
            client.connect(address.replace("@", "\0", 1))
        else:
            client.connect(tuple(address))  # type: ignore[arg-type]
        client.send(b"x")


def own_servers(directory: str) -> dict[str, str]:
    """Servers of our own, and connecting to them."""
    found = {}
    for name, family, address in (
        ("loopback", socket.AF_INET, ("127.0.0.1", 0)),
        ("path", socket.AF_UNIX, f"{directory}/socket"),
        ("abstract", socket.AF_UNIX, "\0paddock-inside"),
    ):
        with socket.socket(family) as server, socket.socket(family) as client:
            server.bind(address)
            server.listen()
            found[name] = _word(client.connect, server.getsockname())
    return found


def network() -> dict[str, str]:
    """The interfaces, and the routes."""
    with open("/proc/net/route", encoding="utf-8") as file:
        routes = file.read().splitlines()[1:]
    return {"interfaces": " ".join(name for _, name in socket.if_nameindex()), "routes": " ".join(routes)}


def shared_memory(key: int, name: str) -> dict[str, str]:
    """Look for memory, semaphores and queues of the host's by key and name; and make some of our own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def word(result: int) -> str:
        return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]

    return {
        "memory by key": word(libc.shmget(key, 0, 0)),
        "semaphores by key": word(libc.semget(key, 0, 0)),
        "queue by key": word(libc.msgget(key, 0)),
        "memory by name": word(libc.shm_open(f"/{name}".encode(), os.O_RDWR, 0)),
        "queue by name": word(libc.mq_open(f"/{name}".encode(), os.O_RDWR)),
        "own memory": word(libc.shmget(key, 4096, 0o1600)),
        "own name": word(libc.shm_open(f"/{name}".encode(), os.O_RDWR | os.O_CREAT, 0o600)),
    }


def set_id_bits(directory: str, numbers: dict[str, int]) -> dict[str, str]:
    """Every call that could leave a set-uid file; and the same with an ordinary mode."""
    found = {}
    for label, mode in (("set-uid", 0o4755), ("set-gid", 0o2755), ("ordinary", 0o755)):
        for name, call in _mode_calls(directory, mode, numbers).items():
            with open(f"{directory}/f", "wb"):
                pass
            found[f"{label} {name}"] = _word(call)
            for left in os.listdir(directory):
                kept = stat.S_IMODE(os.lstat(f"{directory}/{left}").st_mode)
                if kept & 0o6000:
                    found[f"{label} {name}"] = f"left {kept:o}"
                os.unlink(f"{directory}/{left}")
    return found


def _mode_calls(directory: str, mode: int, numbers: dict[str, int]) -> dict[str, Callable[[], object]]:
    old, new = f"{directory}/f", f"{directory}/new"
    how = array.array("Q", [os.O_CREAT | os.O_WRONLY, mode, 0])
    calls: dict[str, Callable[[], object]] = {
        "chmod": lambda: os.chmod(old, mode),
        "fchmod": lambda: _with(os.open(old, os.O_RDONLY), lambda fd: os.fchmod(fd, mode)),
        "fchmodat2": lambda: _system_call(numbers["fchmodat2"], -100, [old], mode, 0),
        "openat": lambda: os.close(os.open(new, os.O_CREAT | os.O_WRONLY, mode)),
        "openat2": lambda: _openat2(numbers["openat2"], new, how),
        "mknod": lambda: os.mknod(new, stat.S_IFREG | mode),
        "temporary": lambda: _with(os.open(directory, os.O_TMPFILE | os.O_WRONLY, mode), lambda fd: _name(fd, new)),
    }
    if "chmod" in numbers:  # the oldest ones, which not every machine has
        calls["chmod by number"] = lambda: _system_call(numbers["chmod"], [old], mode)
        calls["creat by number"] = lambda: os.close(_system_call(numbers["creat"], [new], mode))
    return calls


def _with(fd: int, use: Callable[[int], object]) -> None:
    try:
        use(fd)
    finally:
        os.close(fd)


def _name(fd: int, path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, path.encode(), 0x400) < 0:
        raise OSError(ctypes.get_errno(), "")


def _openat2(number: int, path: str, how: "array.array[int]") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    place = ctypes.c_void_p(how.buffer_info()[0])
    fd = libc.syscall(ctypes.c_long(number), ctypes.c_long(-100), path.encode(), place, ctypes.c_long(24))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "")
    os.close(fd)


def change_protected(path: str) -> dict[str, str]:
    """Every way to change a directory, to put another in its place, or to move it away."""
    beside, parent = f"{path}-other", os.path.dirname(path)
    os.makedirs(beside, exist_ok=True)
    calls: dict[str, Callable[[], object]] = {
        "write": lambda: _create(f"{path}/new"),
        "overwrite": lambda: os.close(os.open(f"{path}/config", os.O_WRONLY)),
        "unlink": lambda: os.unlink(f"{path}/config"),
        "remove": lambda: os.rmdir(f"{path}/hooks"),
        "mkdir": lambda: os.mkdir(f"{path}/made"),
        "move away": lambda: os.rename(path, f"{path}-moved"),
        "move over": lambda: os.rename(beside, path),
        "move file out": lambda: os.rename(f"{path}/config", f"{parent}/config"),
        "link in": lambda: os.symlink("x", f"{path}/link"),
        "hard link out": lambda: os.link(f"{path}/config", f"{parent}/config"),
        "mode": lambda: os.chmod(path, 0o777),
        "mode of a file": lambda: os.chmod(f"{path}/config", 0o777),
        "times": lambda: os.utime(f"{path}/config"),
        "truncate": lambda: os.truncate(f"{path}/config", 0),
        "by the process's root": lambda: _create(f"/proc/self/root{path}/new"),
        "by a directory's descriptor": lambda: _with(
            os.open(path, os.O_RDONLY), lambda fd: _create(f"/proc/self/fd/{fd}/new")
        ),
        "exchange": lambda: _exchange(beside, path),
    }
    return {name: _word(call) for name, call in calls.items()}


def _exchange(one: str, other: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, one.encode(), -100, other.encode(), 2) < 0:
        raise OSError(ctypes.get_errno(), "")


def limits() -> dict[str, int]:
    """What the kernel holds this process to."""
    names = ("RLIMIT_NPROC", "RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_FSIZE")
    return {name: resource.getrlimit(getattr(resource, name))[1] for name in names}


def fork_until_refused(most: int) -> list[object]:
    """How many children there can be at once, and what ends it."""
    count, word = 0, "ok"
    children = []
    while count < most and word == "ok":
        try:
            child = os.fork()
        except OSError as error:
            word = errno.errorcode[error.errno or 0]
            break
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
        count += 1
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return [count, word]


def take_memory(size: int) -> str:
    """Use so many bytes."""
    try:
        block = bytearray(size)
    except MemoryError:
        return "refused"
    for place in range(0, size, 4096):
        block[place] = 1
    return "ok"


def plant(directory: str, kinds: list[str]) -> dict[str, str]:
    """Put things into a directory that are no ordinary files."""
    ways: dict[str, Callable[[str], object]] = {
        "passwd": lambda path: os.symlink("/etc/passwd", path),
        "root": lambda path: os.symlink("/proc/self/root", path),
        "cwd": lambda path: os.symlink("/proc/1/cwd", path),
        "loop": lambda path: os.symlink(path, path),
        "up": lambda path: os.symlink("../../../../../../etc/passwd", path),
        "zero": lambda path: os.symlink("/dev/zero", path),
        "fifo": os.mkfifo,
        "socket": lambda path: socket.socket(socket.AF_UNIX).bind(path),
        "sparse": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40),
    }
    return {kind: _word(ways[kind], f"{directory}/{kind}") for kind in kinds}


def work_over(top: str, git: bool = True) -> dict[str, str]:
    """Change a directory in every way that there is; it has files `README` and `src/a.py`, and others."""

    def replace_directory() -> None:
        os.rename(f"{top}/empty", f"{top}/full")
        os.mkdir(f"{top}/empty")
        with open(f"{top}/empty/new", "w") as file:
            file.write("new")

    def remove_all() -> None:
        for directory, inner, names in os.walk(f"{top}/src", topdown=False):
            for name in names:
                os.unlink(f"{directory}/{name}")
            for name in inner:
                os.rmdir(f"{directory}/{name}")
        os.rmdir(f"{top}/src")
        os.mkdir(f"{top}/src")

    def append() -> None:
        with open(f"{top}/README", "a") as file:
            file.write("more")

    def write_git() -> None:
        with open(f"{top}/.git/config", "w") as file:
            file.write("[core]\n\tfsmonitor = evil\n")

    def map_and_write() -> None:
        with open(f"{top}/run.sh", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[0:2] = b"!#"

    ways: dict[str, Callable[[], object]] = {
        "append": append,
        "map and write": map_and_write,
        "chmod": lambda: os.chmod(f"{top}/README", 0o777),
        "chmod top": lambda: os.chmod(top, 0o755),
        "times": lambda: os.utime(f"{top}/README", (1, 1)),
        "truncate": lambda: os.truncate(f"{top}/twin", 0),
        "hard link": lambda: os.link(f"{top}/src/a.py", f"{top}/hard"),
        "link": lambda: os.symlink("/etc/passwd", f"{top}/soft"),
        "attribute": lambda: os.setxattr(f"{top}/src/a.py", "user.mine", b"x"),
        "no attribute": lambda: os.removexattr(f"{top}/src/a.py", "user.kept"),
        "rename": lambda: os.rename(f"{top}/src/a.py", f"{top}/moved.py"),
        "remove": lambda: os.unlink(f"{top}/link"),
        "fifo": lambda: os.mkfifo(f"{top}/fifo"),
        "remove all": remove_all,
    }
    if git:
        ways["git"] = write_git
    found = {name: _word(way) for name, way in ways.items()}
    found["no attribute"] = found["no attribute"].replace("ENODATA", "ok")  # a copy has none
    found["replace a directory"] = _word(replace_directory).replace(
        "EXDEV", "ok"
    )  # to programs, renaming one is copying
    return found


def get_below(top: str) -> dict[str, str]:
    """Try to take a layer away, to mount another one, or to make what only a layer makes."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
        if libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) < 0:
            raise OSError(ctypes.get_errno(), "")

    def umount() -> None:
        if libc.umount2(top.encode(), 2) < 0:
            raise OSError(ctypes.get_errno(), "")

    os.makedirs(f"{top}/u", exist_ok=True)
    overlay = f"lowerdir={top},upperdir={top}/u,workdir={top}/u,userxattr"
    return {
        "mknod whiteout": _word(os.mknod, f"{top}/README.gone", stat.S_IFCHR | 0o600, 0),
        "remount": _word(mount, "none", top, "none", 32),
        "remount here": _word(mount, "none", top, "none", 32 | 4096),
        "umount": _in_a_child(lambda: _word(umount)),
        "mount overlay": _in_a_child(lambda: _word(mount, "overlay", "/tmp", "overlay", 0, overlay)),
        "mount bind": _in_a_child(lambda: _word(mount, top, "/tmp", "none", 4096)),
        "another's files": _word(os.listdir, "/proc/1/root/proc/1/fd"),
        "its descriptors": _word(os.listdir, "/proc/1/fd"),
    }


def forge_marks(top: str) -> dict[str, str]:
    """Set what only a layer sets. Whether it can be set at all differs; what it does is decided outside."""
    found = {}
    for name in ("opaque", "whiteout", "redirect", "metacopy", "origin", "upper", "impure", "nlink"):
        for space in ("user.overlay", "trusted.overlay", "user.overlay.overlay"):
            for path in (f"{top}/.git", f"{top}/README", top):
                found[f"{space}.{name} {path}"] = _word(os.setxattr, path, f"{space}.{name}", b"/../../../etc")
    return found


def dig(directory: str, levels: int, mode: int) -> None:
    """Directories in each other, deeper than any path can say; nobody may enter them afterwards, with mode 0."""
    os.makedirs(directory, exist_ok=True)
    handles = [os.open(directory, os.O_RDONLY)]
    for _ in range(levels):
        os.mkdir("d" * 20, dir_fd=handles[-1])
        handles.append(os.open("d" * 20, os.O_RDONLY, dir_fd=handles[-1]))
    os.symlink("/usr", "link", dir_fd=handles[-1])
    for handle in handles:
        os.fchmod(handle, mode)


def name_files(directory: str, names: list[str]) -> int:
    """Make a file of each name, given as hexadecimal bytes."""
    for name in names:
        with open(os.fsencode(directory) + b"/" + bytes.fromhex(name), "wb"):
            pass
    return len(os.listdir(directory))


def main() -> None:
    """The name of a function and its arguments in JSON; what it returns goes out as JSON."""
    function: Callable[..., object] = globals()[sys.argv[1]]
    print(json.dumps(function(*json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
