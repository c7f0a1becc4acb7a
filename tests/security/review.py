"""`review=True`: whatever is done in the sandbox, the host's directories stay as they were."""

import os
from pathlib import Path

import pytest

from layers import fingerprint, layers_of, only_copies, picture, project
from paddock import Mount, ReadOnlyError, Sandbox, UnsupportedError
from security import inside
from security.suite import NOT_THERE, REFUSED, Backend, Suite, ask, failed, not_refused

_FORGED = ("whiteout", "redirect", "metacopy", "upper", "nlink")


async def hostile(sb: Sandbox) -> None:
    """All that can be done to a directory, by commands and by file calls."""
    await sb.write("/workspace/README", "replaced by a file call")
    await sb.delete("/workspace/src/deep", recursive=True)
    assert failed(await ask(sb, inside.work_over, "/workspace")) == {}
    assert not_refused(await ask(sb, inside.get_below, "/workspace"), REFUSED | {"ENOENT"}) == {}
    await ask(sb, inside.forge_marks, "/workspace")
    layer = layers_of(sb)["/workspace"]
    top = Path(layer.upper)
    made = (path for path in (top, top / ".git", top / "README") if path.exists())
    for path in made if layer.kind == "overlay" else ():  # in a copy they mean nothing
        assert not {f"user.overlay.{name}" for name in _FORGED} & set(os.listxattr(path))


class ReviewSecurity(Suite):
    """Layers over directories of the host."""

    @pytest.mark.parametrize("kind", ["overlay", "copy"])
    async def test_review_never_writes_to_the_host(
        self, backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        if kind == "copy":
            only_copies(monkeypatch)
        await self.reviewed(backend, tmp_path)

    async def test_a_layer_lies_between(self, backend: Backend, tmp_path: Path) -> None:
        """The same once more, for who takes it away."""
        await self.reviewed(backend, tmp_path)

    async def reviewed(self, backend: Backend, tmp_path: Path) -> None:
        """A session that does its worst."""
        host, beside = project(tmp_path / "host"), project(tmp_path / "beside")
        before = picture(host), picture(beside)
        async with Sandbox.create(
            backend, workspace=host, mounts=[Mount(beside, "/beside", mode="rw")], review=True
        ) as sb:
            assert (await sb.exec("cat README src/a.py")).stdout == "read me\na = 1\n"
            await hostile(sb)
            assert failed(await ask(sb, inside.work_over, "/beside")) == {}
            assert picture(host) == before[0]
        assert (picture(host), picture(beside)) == before

    async def test_without_review_it_would(self, backend: Backend, tmp_path: Path) -> None:
        """The twin: the same steps change a directory that is not under review."""
        host = project(tmp_path / "host")
        before = fingerprint(host)
        async with Sandbox.create(backend, workspace=host) as sb:
            assert failed(await ask(sb, inside.work_over, "/workspace", False)) == {}
        assert fingerprint(host) != before

    async def test_nothing_leads_below_a_layer(self, backend: Backend, tmp_path: Path, contained: bool) -> None:
        host = project(tmp_path / "host")
        (host / "secret").mkdir(mode=0o700)
        async with Sandbox.create(backend, workspace=host, review=True) as sb:
            layer = layers_of(sb)["/workspace"]
            above = os.path.dirname(layer.upper)
            hidden = [layer.lower, layer.upper, above, f"{above}/work", f"{above}/merged"]
            ways = [
                f"{way}{path}" for path in hidden for way in ("", "/proc/self/root", "/proc/1/root", "/proc/1/cwd/")
            ]
            assert not_refused(await ask(sb, inside.read, ways), NOT_THERE) == {}
            assert failed(await ask(sb, inside.read, ["/workspace", "/workspace/secret", "/workspace/src/a.py"])) == {}
            if not contained:  # an engine that mounts it by itself shows where it is from
                told = (await sb.exec("cat /proc/self/mountinfo")).stdout
                assert not [path for path in hidden if path in told]

    async def test_read_only_mounts_stay_so(self, backend: Backend, tmp_path: Path) -> None:
        host, other = project(tmp_path / "host"), project(tmp_path / "other")
        (other / "inner").mkdir()
        before = fingerprint(other)
        mounts = [Mount(other, "/other"), Mount(host, "/other/inner", mode="rw")]
        async with Sandbox.create(backend, mounts=mounts, review=True) as sb:
            found = await ask(sb, inside.create_in, ["/other", "/other/src", "/other/inner", "/other/inner/src"])
            assert not_refused({path: found[path] for path in ("/other", "/other/src")}) == {}
            assert failed({path: found[path] for path in ("/other/inner", "/other/inner/src")}) == {}
            with pytest.raises(ReadOnlyError):
                await sb.write("/other/README", "x")
            await sb.write("/other/inner/README", "x")
            assert set(layers_of(sb)) == {"/other/inner"}
        assert fingerprint(other) == before
        assert (host / "README").read_text() == "read me\n"

    async def test_git_is_the_sandboxs_own(self, backend: Backend, tmp_path: Path) -> None:
        host = project(tmp_path / "host")
        before = fingerprint(host)
        async with Sandbox.create(backend, workspace=host, review=True) as sb:
            assert (await sb.exec("echo evil > .git/hooks/pre-commit; echo evil >> .git/config")).exit_code == 0
            await sb.write(".git/HEAD", "ref: refs/heads/evil\n")
            assert await sb.read(".git/config") == "[core]\nevil\n"
            with pytest.raises(UnsupportedError):
                sb.resolve(".git")
        assert fingerprint(host) == before

    async def test_no_set_uid_bit_in_a_layer(self, backend: Backend, tmp_path: Path) -> None:
        host = project(tmp_path / "host")
        async with Sandbox.create(backend, workspace=host, review=True) as sb:
            assert (await sb.exec("chmod 4755 run.sh")).exit_code != 0
            assert (await sb.exec("chmod 700 run.sh && ./run.sh")).stdout == "ran\n"
            assert os.stat(Path(layers_of(sb)["/workspace"].upper, "run.sh")).st_mode & 0o7777 == 0o700
