"""Images that are made of this host's files: nothing is fetched.

| Name | What is in it |
| --- | --- |
| `busybox` | busybox with all of its applets |
| `bare` | one program and nothing else: no shell, no `/etc`, no `/tmp` |
| `python` | a small system: sh, bash, the usual tools, Python with its library; applets of busybox for all else |
| `node` | the same with Node and npm; made for those who build images, and not in every engine |
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from engines.api import Api

NAMES = ("busybox", "bare", "python")

_PLACES = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_CHANGES = {"ENV": "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_PROGRAMS = """
    [ awk base64 basename bash cat chgrp chmod chown cmp comm cp cut date dd df diff dirname du echo egrep env expr
    false fgrep find flock fold free getent grep groups gunzip gzip head hostname id install join kill link ln ls
    md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc od paste pgrep pkill printenv printf prlimit ps pwd
    readlink realpath rm rmdir script sed seq setpriv setsid sh sha256sum shuf sleep sort split stat stdbuf stty sync
    tac tail tar tee test timeout top touch tr true truncate tty uname uniq unlink unshare uptime wc whoami xargs yes
"""
"""What the suites and everyday commands use. Each is this host's own where it has one: busybox knows fewer options."""
_NOT_OF_PYTHON = {
    *(
        "test",
        "tests",
        "idlelib",
        "idle_test",
        "lib2to3",
        "ensurepip",
        "distutils",
        "pydoc_data",
        "turtledemo",
        "tkinter",
    ),
    *("site-packages", "dist-packages"),
}
_ABOUT = "import json, sys, sysconfig; print(json.dumps([sys.executable, sysconfig.get_path('stdlib')]))"
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/os-release": 'ID=paddock-test\nPRETTY_NAME="of this host\'s files"\n',
}


def make(name: str, archive: Path) -> None:
    """Write an image as an archive. Nobody sees half of one."""
    partial = archive.with_name(f"{archive.name}-{os.getpid()}")
    with tarfile.open(partial, "w") as tar:
        {"busybox": _busybox, "bare": _bare, "python": _python, "node": _node}[name](_Tree(tar))
    partial.rename(archive)


def load(api: Api, name: str, archive: Path) -> None:
    """Give it to an engine."""
    with open(archive, "rb") as file:
        api.import_image(name, file, _CHANGES)


class _Tree:
    """An archive that is being filled. All of it belongs to root, and what is there already stays as it is."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._paths: set[str] = set()

    def directory(self, path: str, mode: int = 0o755) -> None:
        self._add(path, tarfile.DIRTYPE, mode)

    def link(self, path: str, target: str) -> None:
        self._add(path, tarfile.SYMTYPE, target=target)

    def text(self, path: str, content: str) -> None:
        self._add(path, tarfile.REGTYPE, content=content.encode())

    def file(self, path: str, source: Path) -> None:
        """A copy of one of this host's, whatever link leads to it. Python believes what it has compiled by the time."""
        about = source.stat()
        self._add(path, tarfile.REGTYPE, about.st_mode & 0o777, content=source.read_bytes(), time=int(about.st_mtime))

    def programs(self, sources: Mapping[str, Path]) -> None:
        """The same of many, with all libraries that they are loaded with."""
        for path, source in sources.items():
            self.file(path, source)
        for library in _libraries(sources.values()):
            self.file(_merged(library), Path(library))

    def _add(
        self, path: str, kind: bytes, mode: int = 0o644, *, target: str = "", content: bytes = b"", time: int = 0
    ) -> None:
        if path in self._paths:
            return
        if os.path.dirname(path):
            self.directory(os.path.dirname(path))
        self._paths.add(path)
        info = tarfile.TarInfo(path)
        info.type, info.mode, info.linkname, info.size, info.mtime = kind, mode, target, len(content), time
        self._tar.addfile(info, io.BytesIO(content))


def _busybox(tree: _Tree) -> None:
    tree.programs({"bin/busybox": _found("busybox")})
    _applets(tree, "bin")
    _usual_places(tree)


def _bare(tree: _Tree) -> None:
    tree.programs({"busybox": _found("busybox")})


def _python(tree: _Tree) -> None:
    for name in ("bin", "sbin", "lib", "lib64"):
        tree.directory(f"usr/{name}")
        tree.link(name, f"usr/{name}")
    _interpreter(tree)
    tools = {name: shutil.which(name, path=_PLACES) for name in (*_PROGRAMS.split(), "busybox")}
    tree.programs({f"usr/bin/{name}": Path(path) for name, path in tools.items() if path})
    _whole_c_library(tree)
    _applets(tree, "usr/bin")
    _usual_places(tree)


def _node(tree: _Tree) -> None:
    """By what is on the PATH now, and with the authorities that this host trusts."""
    _python(tree)
    node, npm = (shutil.which(name) for name in ("node", "npm"))
    assert node is not None
    assert npm is not None
    tree.programs({"usr/local/bin/node": Path(node)})
    package = Path(npm).resolve().parents[1]
    for directory, _, files in os.walk(package):
        for file in files:
            path = Path(directory, file)
            tree.file(f"usr/local/lib/npm/{path.relative_to(package)}", path)
    tree.link("usr/local/bin/npm", "/usr/local/lib/npm/bin/npm-cli.js")
    trusted = Path("/etc/ssl/certs/ca-certificates.crt")
    if trusted.exists():
        tree.file("etc/ssl/certs/ca-certificates.crt", trusted)


def _interpreter(tree: _Tree) -> None:
    """The system's, or else the one that runs the tests; at its own place, or it would not find its library."""
    system = Path("/usr/bin/python3")
    start = system if system.exists() else Path(sys.executable).resolve()
    told = subprocess.run([start, "-I", "-S", "-c", _ABOUT], capture_output=True, check=True, text=True)
    executable, library = (Path(path).resolve() for path in json.loads(told.stdout))
    found = {}
    for directory, names, files in os.walk(library):
        names[:] = [name for name in names if name not in _NOT_OF_PYTHON and not name.startswith("config-")]
        found.update({_merged(path): Path(path) for path in (f"{directory}/{file}" for file in files)})
    modules = {path: source for path, source in found.items() if source.suffix == ".so"}
    tree.programs({_merged(str(executable)): executable, **modules})
    for path, source in found.items():
        tree.file(path, source)
    tree.link("usr/bin/python3", str(executable))


def _whole_c_library(tree: _Tree) -> None:
    """Also the parts that are empty now, but which programs that were built elsewhere are linked with."""
    for library in map(Path, _libraries([_found("bash")])):
        if library.name == "libc.so.6":
            for part in ("libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1", "libutil.so.1"):
                if (library.parent / part).exists():
                    tree.file(_merged(str(library.parent / part)), library.parent / part)


def _applets(tree: _Tree, directory: str) -> None:
    listed = subprocess.run([_found("busybox"), "--list"], capture_output=True, check=True, text=True)
    for name in listed.stdout.split():
        tree.link(f"{directory}/{name}", "busybox")


def _usual_places(tree: _Tree) -> None:
    for name in ("dev", "home", "proc", "root", "run", "sys", "var"):
        tree.directory(name)
    for name in ("tmp", "var/tmp"):
        tree.directory(name, 0o1777)
    for path, content in _TEXTS.items():
        tree.text(path, content)


def _found(program: str) -> Path:
    path = shutil.which(program, path=_PLACES)
    assert path is not None, f"{program} is not installed"
    return Path(path)


def _libraries(programs: Iterable[Path]) -> set[str]:
    """Of those that have any; about static programs and scripts there is nothing to tell."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True)
    words = [word for line in told.stdout.splitlines() for word in line.split() if line.startswith("\t")]
    return {word for word in words if word.startswith("/")}


def _merged(path: str) -> str:
    """As in a system in which `/bin` and `/lib` are links into `/usr`."""
    top = path.split("/")[1]
    return f"usr{path}" if top in ("bin", "sbin", "lib", "lib64") else path.lstrip("/")
