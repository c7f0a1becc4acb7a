"""Skills in a sandbox: whole, executable, and nothing besides."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from paddock import ConfigError, OutsideError, Sandbox, TooLargeError, copy_skills, load_skill, load_skills
from paddock.skills import copying
from skills.making import DESCRIPTION, skill

TO = "/workspace/.claude/skills"
SCRIPT = "#!/bin/sh\necho it ran\n"


@pytest.fixture(params=["memory", "local", "namespaces"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    async with Sandbox.create(request.param) as sb:
        yield sb


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A directory of the host's with nothing else in it."""
    (tmp_path / "host").mkdir()
    return tmp_path / "host"


async def modes(sandbox: Sandbox, path: str) -> dict[str, int]:
    return {one.path.removeprefix(f"{path}/"): one.mode for one in await sandbox.scan(path)}


async def test_whole_folders_with_run_bits(sandbox: Sandbox, host: Path) -> None:
    folder = skill(host, "one", files={"scripts/run.sh": SCRIPT, "references/deep/text.md": "text"})
    (folder / "scripts/run.sh").chmod(0o6755)
    (folder / "scripts/link.sh").symlink_to("run.sh")
    skill(host, "two")
    assert await copy_skills(sandbox, load_skills(host), TO) == (f"{TO}/one", f"{TO}/two")
    assert await sandbox.list(TO) == ["one", "two"]
    assert await sandbox.read(f"{TO}/one/SKILL.md") == (folder / "SKILL.md").read_text()
    assert await sandbox.read(f"{TO}/one/references/deep/text.md") == "text"
    assert await sandbox.read(f"{TO}/one/scripts/link.sh") == SCRIPT
    found = await modes(sandbox, f"{TO}/one/scripts")
    assert found["run.sh"] == 0o755
    assert (await modes(sandbox, f"{TO}/one"))["SKILL.md"] & 0o111 == 0
    if sandbox.backend != "memory":
        assert (await sandbox.exec("./.claude/skills/one/scripts/run.sh")).stdout == "it ran\n"
        assert (await sandbox.exec("find .claude -perm /7000")).stdout == ""


async def test_again(sandbox: Sandbox, host: Path) -> None:
    """What was there of the same skill goes, whatever it was; the others stay."""
    folder = skill(host, "one", files={"old.md": "old", "scripts/run.sh": SCRIPT})
    await copy_skills(sandbox, [load_skill(folder)], TO)
    await sandbox.write(f"{TO}/one/scripts/run.sh", "changed inside", mode=0o600)
    await sandbox.write(f"{TO}/other/SKILL.md", "of somebody else")
    (folder / "old.md").rename(folder / "new.md")
    for _ in range(2):
        await copy_skills(sandbox, [load_skill(folder)], TO)
        assert await sandbox.list(TO) == ["one", "other"]
        assert await sandbox.list(f"{TO}/one") == ["SKILL.md", "new.md", "scripts"]
        assert await sandbox.read(f"{TO}/one/scripts/run.sh") == SCRIPT
        assert (await modes(sandbox, f"{TO}/one/scripts"))["run.sh"] == 0o755
    await sandbox.delete(f"{TO}/one", recursive=True)
    await sandbox.write(f"{TO}/one", "a file")
    await copy_skills(sandbox, [load_skill(folder)], TO)
    assert await sandbox.list(f"{TO}/one") == ["SKILL.md", "new.md", "scripts"]


async def test_by_several_at_once(sandbox: Sandbox, host: Path) -> None:
    """As by runs of agents that share a home."""
    skills = [load_skill(skill(host, "one", files={f"{number}.md": "text" for number in range(20)}))]
    await asyncio.gather(*(copy_skills(sandbox, skills, TO) for _ in range(6)))
    assert await sandbox.list(TO) == ["one"]
    assert len(await sandbox.list(f"{TO}/one")) == 21


async def test_names(host: Path) -> None:
    """Agents look for SKILL.md, and for the folder by the skill's name."""
    skill(host / "store", "v2", "name: one", DESCRIPTION, file="skill.md")
    (host / "one").symlink_to("store/v2")
    async with Sandbox.create("memory") as sb:
        assert await copy_skills(sb, [load_skill(host / "one")], "skills") == ("/workspace/skills/one",)
        assert await sb.list("skills/one") == ["SKILL.md"]
        assert await copy_skills(sb, [], "none") == ()
        assert not await sb.exists("none")


@pytest.mark.parametrize(
    ("target", "fine"),
    [("text.md", True), ("../text.md", False), ("/etc/passwd", False), ("sub/../../x", False), ("nowhere", True)],
)
async def test_links(host: Path, target: str, fine: bool) -> None:
    folder = skill(host, "one", files={"text.md": "text"})
    older = load_skill(folder)
    async with Sandbox.create("memory") as sb:
        await copy_skills(sb, [older], TO)
        (folder / "link").symlink_to(target)
        if fine:
            await copy_skills(sb, [load_skill(folder)], TO)
            assert await sb.list(f"{TO}/one") == ["SKILL.md", "link", "text.md"]
            return
        with pytest.raises(OutsideError, match="link that leads out of the tree"):
            await copy_skills(sb, [load_skill(folder)], TO)
        assert await sb.list(TO) == ["one"]
        assert await sb.list(f"{TO}/one") == ["SKILL.md", "text.md"]


async def test_a_folder_that_was_swapped(host: Path) -> None:
    """Between loading and copying somebody puts a link to other files in its place, or on the way to it."""
    folder = skill(host / "skills", "one")
    (host / "private/one").mkdir(parents=True)
    (host / "private/one/secret").write_text("x")
    found = load_skill(folder)
    async with Sandbox.create("memory") as sb:
        await copy_skills(sb, [found], TO)
        for swapped, by in ((folder, "private/one"), (host / "skills", "private")):
            swapped.rename(host / "away")
            swapped.symlink_to(host / by)
            with pytest.raises(ConfigError, match="cannot be copied"):
                await copy_skills(sb, [found], TO)
            assert await sb.list(f"{TO}/one") == ["SKILL.md"]
            swapped.unlink()
            (host / "away").rename(swapped)


async def test_from_the_workspace_itself(host: Path) -> None:
    """There commands can change it at any time: what they link to stays out."""
    skill(host / "skills", "one", files={"scripts/run.sh": SCRIPT})
    async with Sandbox.create("namespaces", workspace=host) as sb:
        await copy_skills(sb, load_skills(host / "skills"), "/workspace/copied")
        assert (await sb.exec(["/workspace/copied/one/scripts/run.sh"])).stdout == "it ran\n"
        await sb.exec("ln -s /etc skills/one/etc")
        with pytest.raises(OutsideError):
            await copy_skills(sb, load_skills(host / "skills"), "/workspace/copied")
        assert await sb.list("/workspace/copied/one") == ["SKILL.md", "scripts"]


@pytest.mark.parametrize("bound", ["MAX_ENTRIES", "MAX_BYTES"])
async def test_bounds(host: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Of all together; and before anything is changed inside."""
    for name in ("one", "two"):
        folder = skill(host, name, files={"data": "x" * 40})
        with (folder / "hole").open("wb") as file:
            file.truncate(5000)
    found = load_skills(host)
    exactly = {"MAX_ENTRIES": 6, "MAX_BYTES": sum(file.stat().st_size for file in host.glob("*/*"))}[bound]
    async with Sandbox.create("memory") as sb:
        monkeypatch.setattr(copying, bound, exactly - 1)
        with pytest.raises(TooLargeError, match="The skills have more than"):
            await copy_skills(sb, found, TO)
        assert not await sb.exists(TO)
        monkeypatch.setattr(copying, bound, exactly)
        await copy_skills(sb, found, TO)


async def test_what_is_no_file_is_left_out(host: Path) -> None:
    folder = skill(host, "one")
    os.mkfifo(folder / "pipe")
    async with Sandbox.create("memory") as sb:
        await copy_skills(sb, load_skills(host), TO)
        assert await sb.list(f"{TO}/one") == ["SKILL.md"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read what others may not")
async def test_root_copies_what_the_owner_could_read(host: Path) -> None:
    folder = skill(host, "one", files={"private": "x"})
    for path in (folder, folder / "SKILL.md"):
        os.chown(path, 1000, 1000)
    (folder / "private").chmod(0o600)
    async with Sandbox.create("memory") as sb:
        with pytest.raises(ConfigError, match="has 1 files that cannot be read"):
            await copy_skills(sb, load_skills(host), TO)
        (folder / "private").chmod(0o644)
        await copy_skills(sb, load_skills(host), TO)


async def test_names_that_come_twice(host: Path) -> None:
    found = [load_skill(skill(host / side, "one")) for side in ("a", "b")]
    async with Sandbox.create("memory") as sb:
        with pytest.raises(ConfigError, match="the same name"):
            await copy_skills(sb, found, TO)
        assert not await sb.exists(TO)


async def test_nothing_is_left_of_one_that_is_cancelled(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(host / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (host / "tmp").mkdir()
    skill(host / "skills", "one")
    async with Sandbox.create("memory") as sb:
        reached = asyncio.Event()

        async def stuck(*_: object) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(sb, "move", stuck, raising=False)
        copying = asyncio.ensure_future(copy_skills(sb, load_skills(host / "skills"), TO))
        await reached.wait()
        assert len(list((host / "tmp").iterdir())) == 1
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert list((host / "tmp").iterdir()) == []
        assert await sb.list(TO) == []
