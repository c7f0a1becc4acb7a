"""What a sandbox shows of this host is what was meant, whoever moves directories and plants links meanwhile."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from paddock import ConfigError, Mount, Namespaces, Sandbox, UnavailableError
from paddock.backends.namespaces import etc, launch, order, system
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.sources import Sources
from paddock.backends.supervised import checks
from paddock.backends.supervised.driver import Root
from paddock.dirs.descriptor import DescriptorDir
from paddock.driver import Plan
from paddock.sandbox import create, layout

ROOT = os.geteuid() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace with a repository, beside something that is nobody's business."""
    (tmp_path / "project/.git/hooks").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("SECRET")
    return tmp_path / "project"


def replaced_by_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.parent / "secret" if path.name != ".git" else path.parent.parent / "secret")


def before(patch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], None]) -> None:
    original = getattr(module, name)

    def changed(*arguments: Any, **options: Any) -> Any:
        act()
        return original(*arguments, **options)

    patch.setattr(module, name, changed)


# Somebody else is faster


@pytest.mark.parametrize("name", ["", ".git"])
async def test_a_link_after_the_look(project: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, create, "_plan", lambda: replaced_by_link(project / name))
    with pytest.raises(ConfigError) as caught:
        await Sandbox.create("namespaces", workspace=project)
    assert str(project.parent) not in str(caught.value)


@pytest.mark.parametrize("name", ["", ".git"])
async def test_a_link_before_the_mount(project: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, launch, "build", lambda: replaced_by_link(project / name))
    with suppress(UnavailableError):  # by its descriptor, or not at all
        async with Sandbox.create("namespaces", workspace=project) as sb:
            assert "SECRET" not in (await sb.exec("cat key .git/key")).stdout


async def test_without_anybody_else(project: Path) -> None:
    async with Sandbox.create("namespaces", workspace=project) as sb:
        assert (await sb.exec("ls .git; touch f; touch .git/f")).stdout == "hooks\n"
    assert (project / "f").exists()


async def test_a_path_with_a_link_is_where_it_leads(project: Path) -> None:
    (project.parent / "link").symlink_to(project)
    async with Sandbox.create("namespaces", workspace=project.parent / "link") as sb:
        await sb.exec("touch f", check=True)
    assert (project / "f").exists()


def test_what_is_inside_is_compared(project: Path) -> None:
    plan = Plan(id="x", mounts=(Mount(project, "/workspace", "rw"),), protected=("/workspace/.git",))
    with Sources(plan) as sources:
        for path, refused in ((project, False), (project.parent / "secret", True)):
            directory = DescriptorDir(os.open(path, os.O_RDONLY))
            roots = {"/workspace": Root(1, directory, None)}
            if refused:
                with pytest.raises(UnavailableError, match="replaced"):
                    checks.check_mounts(sources, roots, ())
            else:
                checks.check_mounts(sources, roots, ())
            with pytest.raises(UnavailableError, match="protected"):  # it is not read-only out here
                checks.check_protected(sources, plan.protected, roots)
            directory.close()


def test_an_older_bubblewrap_is_given_names(project: Path) -> None:
    told = order.Order(Identity(os.geteuid(), os.getegid(), ours=True), by_descriptor=False)
    told.show(told.keep(os.open(project, os.O_PATH)), "/workspace", writable=True)
    assert told.words == ["--bind", str(project), "/workspace"]
    assert told.passed == []
    told.close()


async def test_a_new_directory_that_becomes_a_link(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = project.parent / "secret"
    secret.chmod(0o700)
    before(monkeypatch, layout, "chmod_directory", lambda: replaced_by_link(project.parent / "new"))
    with pytest.raises(ConfigError, match="cannot be made"):
        await Sandbox.create("namespaces", workspace=project.parent / "new")
    assert secret.stat().st_mode & 0o777 == 0o700


# Links and pointers that are there already


@pytest.mark.parametrize("name", ["workspace", "cache"])
async def test_a_link_in_the_root(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "root" / name).symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match=f"'/{name}' in the root is a link"):
        await Sandbox.create("namespaces", root=tmp_path / "root")


async def test_a_root_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    async with Sandbox.create("namespaces", root=tmp_path / "root") as sb:
        await sb.write("f", "")
    assert (tmp_path / "real/workspace/f").exists()


@pytest.mark.parametrize(
    "pointer", ["a/real", ".", "link", "a/../real", "link/../real", "../project/a/real", "a/../../out", "alias"]
)
async def test_git_in_a_place_that_can_be_replaced(tmp_path: Path, pointer: str) -> None:
    project = tmp_path / "project"
    for path in ("a/real", "real"):
        (project / path).mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (project / "link").symlink_to("real")
    (project / "alias").symlink_to(tmp_path / "out")
    (project / ".git").write_text(f"gitdir: {pointer}\n")
    with pytest.raises(ConfigError, match="commands could replace"):
        await Sandbox.create("namespaces", workspace=project)


@pytest.mark.parametrize("pointer", ["real", "../project/real", "../out"])
async def test_git_in_a_place_that_cannot(tmp_path: Path, pointer: str) -> None:
    for path in ("project/real", "project/main", "out"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("project/real", "out"):
        (tmp_path / path / "commondir").write_text("../project/main" if path == "out" else "../main\n")
    (tmp_path / "project/.git").write_text(f"gitdir: {pointer}\n")
    async with Sandbox.create("namespaces", workspace=tmp_path / "project") as sb:
        result = await sb.exec("touch main/f; touch f; mv main x; rm -f .git; ls -d f main .git")
        assert result.stdout.split() == [".git", "f", "main"]
    assert list((tmp_path / "project/main").iterdir()) == []


async def test_a_common_directory_by_a_link(project: Path) -> None:
    (project / ".git/commondir").symlink_to("../text")
    with pytest.raises(ConfigError, match="commands could replace"):
        await Sandbox.create("namespaces", workspace=project)


async def test_git_that_is_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    os.mkfifo(tmp_path / "project/.git")
    with pytest.raises(ConfigError, match=r"\.git' cannot be protected"):
        await Sandbox.create("namespaces", workspace=tmp_path / "project")


# What is Paddock's own, or the user's


@pytest.mark.parametrize("variable", ["PADDOCK_STATE", "PADDOCK_RUNTIME", "XDG_CACHE_HOME", "PADDOCK_AUDIT"])
async def test_own_directories_are_not_shown(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as shown:  # a short path, as sockets need
        async with Sandbox.create("namespaces", workspace=shown) as sb:
            await sb.exec("true", check=True)
        monkeypatch.setenv(variable, f"{shown}/own")
        for backend, workspace in ((Namespaces(), shown), (Namespaces(host_paths=[shown]), None)):
            with pytest.raises(ConfigError, match=r"holds (Paddock's own|the audit log)"):
                await Sandbox.create(backend, workspace=workspace)


@pytest.mark.parametrize("variable", ["HOME", "PADDOCK_STATE", "PADDOCK_AUDIT"])
def test_a_python_beside_what_is_private(tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_prefix", lambda: str(tmp_path / "python"))
    assert system.interpreter() == str(tmp_path / "python")
    monkeypatch.setenv(variable, str(tmp_path / "python/own"))
    assert system.interpreter() is None


def test_the_prefix_is_this_pythons() -> None:
    assert system._prefix() in (None, os.path.realpath(sys.base_prefix))


def test_etc_shows_what_everybody_can_read(tmp_path: Path) -> None:
    certs = tmp_path / "host/ssl/certs"
    (certs / "closed").mkdir(parents=True)
    for name in ("open.pem", "own.key", "closed/own.key"):
        (certs / name).write_text("x")
        (certs / name).chmod(0o600 if name.endswith("key") else 0o644)
    (certs / "closed").chmod(0o700)
    prepared = etc.prepare(str(tmp_path / "host"))
    os.close(prepared.fd)
    assert os.listdir(Path(prepared.path, "ssl/certs")) == ["open.pem"]


@pytest.mark.parametrize("act", ["link", "writable"])
async def test_etc_that_somebody_planted(tmp_path: Path, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    prepared = etc.prepare()
    os.close(prepared.fd)
    path = Path(prepared.path)
    if act == "link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    else:
        path.chmod(0o777)
    with pytest.raises(UnavailableError, match="copy of /etc"):
        await Sandbox.create("namespaces")


@pytest.mark.skipif(not ROOT, reason="only root's launcher has a bound")
async def test_more_mounts_than_root_can_show(tmp_path: Path) -> None:
    mounts = []
    for number in range(130):
        (tmp_path / f"m/{number}").mkdir(parents=True)
        mounts.append(Mount(tmp_path / f"m/{number}", f"/m{number}"))
    with pytest.raises(ConfigError, match="root can show"):
        await Sandbox.create("namespaces", mounts=mounts)
    async with Sandbox.create("namespaces", mounts=mounts[:110]) as sb:
        assert (await sb.exec("ls -d /m*")).stdout.count("\n") == 110


@pytest.mark.parametrize("target", ["/data/out", "/data/out/deep"])
async def test_a_link_where_a_mount_has_to_be(target: str, tmp_path: Path) -> None:
    """While bubblewrap builds a root, the host's is at /oldroot: a repository could have it make directories there."""
    for name in ("repository/sub", "outside", "out"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "repository/out").symlink_to(f"/oldroot{tmp_path}/outside")
    (tmp_path / "repository/other").symlink_to("sub")
    mounts = [Mount(tmp_path / "repository", "/data"), Mount(tmp_path / "out", target, "rw")]
    async with Sandbox.create("namespaces", mounts=mounts) as sb:
        await sb.exec(f"echo x > {target}/f", check=True)
        assert await sb.list("/data") == ["other", "out", "sub"]
        assert (await sb.exec("readlink /data/other")).stdout == "sub\n"
    assert (tmp_path / "out/f").read_text() == "x\n"
    assert list((tmp_path / "outside").iterdir()) == []
