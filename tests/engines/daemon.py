"""Private engines: Docker, Podman, and a Docker that cannot see this host's files. Each has a keeper that ends it."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engines import keeper
from engines.api import Api

_SECONDS = 60.0
_LINES = 15
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PLATFORMS = ("systrap", "ptrace")
"""Of gVisor, and which come first. `kvm` is not among them: inside another virtual machine it can hang for ever."""

# The engine keeps its own directory, under the same name, and finds nothing in the hidden ones.
_HIDING = """
set -eu
own=$1; shift
mount --make-rprivate /
exec 9< "$own"
while [ "$1" != -- ]; do mount -t tmpfs hidden "$1"; shift; done
shift
mkdir -p "$own"
mount --no-canonicalize --bind /proc/self/fd/9 "$own"
exec 9<&-
cd /
exec "$@"
"""


@dataclass(frozen=True)
class Engine:
    """One that runs."""

    name: str
    socket: Path
    directory: Path
    keeper: int
    """The process that ends it when its standard input ends."""
    cgroup: str
    """In which its containers are, in every hierarchy."""

    @property
    def url(self) -> str:
        """As in `DOCKER_HOST`."""
        return f"unix://{self.socket}"

    @property
    def api(self) -> Api:
        return Api(self.socket)


def missing(*programs: str) -> str | None:
    """Why there can be no engine of these programs, if so."""
    if os.geteuid() != 0:
        return "a private engine needs root"
    absent = [program for program in programs if shutil.which(program, path=_PLACES) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "a private engine needs to mount, and root may not here"
    return None


@contextmanager
def docker(hidden: Sequence[Path] = (), *, apart: bool = False) -> Iterator[Engine]:
    """A Docker. What is below the hidden directories of this host is not there for it, as for one on another machine.

    One that is apart sees all files of this host, and nothing that is mounted there after its start.
    """
    with _directory() as directory:
        cgroup = f"/{directory.name}"
        settings = {
            "data-root": f"{directory}/data",
            "exec-root": f"{directory}/exec",
            "pidfile": f"{directory}/pid",
            "hosts": [f"unix://{directory}/socket"],
            "deprecated-key-path": f"{directory}/key.json",
            "cgroup-parent": cgroup,
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "storage-driver": "vfs" if _on_overlay(directory) else "overlay2",
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "ip-masq": False,
            "userland-proxy": False,
            "runtimes": _runtimes(),
        }
        (directory / "daemon.json").write_text(json.dumps(settings))
        words = [_program("dockerd"), "--config-file", f"{directory}/daemon.json"]
        if hidden:
            script = ["sh", "-c", _HIDING, "hiding", str(directory), *map(str, hidden), "--"]
            words = ["unshare", "--mount", *script, *words]
        elif apart:
            words = ["unshare", "--mount", "--propagation", "private", *words]
        with _kept("docker", directory, cgroup, words, {}) as engine:
            yield engine


@contextmanager
def podman() -> Iterator[Engine]:
    """A Podman that serves the API of Docker."""
    with _directory() as directory:
        (directory / "containers.conf").write_text(_containers_conf(directory))
        driver = "vfs" if _on_overlay(directory) else "overlay"
        words = [_program("podman"), "--root", f"{directory}/root", "--runroot", f"{directory}/run"]
        words += ["--storage-driver", driver, "--runtime-flag", f"root={directory}/runc"]
        words += ["system", "service", "--time", "0", f"unix://{directory}/socket"]
        env = {"CONTAINERS_CONF": f"{directory}/containers.conf", "TMPDIR": str(directory)}
        with _kept("podman", directory, f"/{directory.name}", words, env) as engine:
            yield engine


def _containers_conf(directory: Path) -> str:
    """Limits are what a process here has: the usual ones are more, and need a right that even root may not have.

    Both numbers are the same because Podman 4.3 mistakes one for the other.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = min(number for number in (most, resource.getrlimit(resource.RLIMIT_NPROC)[1]) if number > 0)
    return f"""
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
events_logfile_max_size = "1g"
lock_type = "file"
static_dir = "{directory}/static"
tmp_dir = "{directory}/tmp"
volume_path = "{directory}/volumes"
[network]
network_config_dir = "{directory}/net"
"""


@contextmanager
def _directory() -> Iterator[Path]:
    """With a short path, for sockets. The keeper removes it; here that is only for when there was none."""
    directory = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
    try:
        yield directory
    finally:
        if not keeper.mounted(str(directory)):
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _kept(name: str, directory: Path, cgroup: str, words: list[str], env: Mapping[str, str]) -> Iterator[Engine]:
    environment = {"PATH": _PLACES, "HOME": str(directory), "TMPDIR": str(directory), **env}
    program = [sys.executable, "-I", "-S", keeper.__file__, str(directory), cgroup, *words]
    with open(directory / "log", "w+b") as log:
        process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, start_new_session=True
        )
        engine = Engine(name, directory / "socket", directory, process.pid, cgroup)
        try:
            started = _answers(engine, process)
            if started:
                yield engine
        finally:
            left = process.communicate()[0].decode()
        if not started:
            log.seek(0)
            last = log.read().decode(errors="replace").splitlines()[-_LINES:]
            raise RuntimeError("\n".join([f"{name} did not start; its last lines:", *last]))
    if left:
        raise RuntimeError(f"{name} left behind:\n{left}")


def _answers(engine: Engine, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _SECONDS
    while not engine.api.ping():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _program(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    assert found is not None, name
    return found


def _on_overlay(directory: Path) -> bool:
    """Where an overlay cannot be put upon: in many containers."""
    told = subprocess.run(["stat", "--file-system", "--format=%T", directory], capture_output=True, text=True)
    return told.stdout.strip() == "overlayfs"


def _runtimes() -> dict[str, object]:
    """gVisor, with the first platform that works on this kernel."""
    runsc = shutil.which("runsc", path=_PLACES)
    for platform in _PLATFORMS if runsc else ():
        words = ["--network=none", f"--platform={platform}"]
        with tempfile.TemporaryDirectory(prefix="engine-", dir="/tmp") as state:
            try:
                tried = subprocess.run(
                    [runsc or "", *words, "--root", state, "do", "true"], capture_output=True, timeout=20, cwd=state
                )
            except subprocess.TimeoutExpired:
                continue
        if tried.returncode == 0:
            return {"runsc": {"path": runsc, "runtimeArgs": words}}
    return {}
