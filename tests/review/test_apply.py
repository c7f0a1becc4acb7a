"""What was shown is written to the host, exactly that, all or chosen; and nothing without consent."""

import os
from pathlib import Path

import pytest

from paddock import consent as consenting
from paddock.dirs.descriptor import DescriptorDir
from paddock.errors import ConflictError, NotAuthorizedError, NotFoundError, UnsupportedError
from paddock.review import ChangeSet, look, recover, restoring
from paddock.review.findings import Findings
from paddock.types.consent import ApprovalRequest
from paddock.types.review import Applied
from review.layers import by_path, changes, consent, copied, edit, mounted, operations
from review.trees import tree


def project(top: Path) -> None:
    (top / "src" / "deep").mkdir(parents=True)
    (top / "src" / "a.py").write_text("one\n")
    (top / "src" / "b.py").write_text("keep\n")
    (top / "src" / "deep" / "c.py").write_text("deep\n")
    (top / "bin").write_bytes(b"\0\1\2")
    (top / "link").symlink_to("src/a.py")
    (top / "old").write_text("moved\n")


EVERYTHING = """
echo two > src/a.py; rm src/b.py; rm -r src/deep; echo now-a-file > src/deep
rm bin; mkdir -p bin/inner; echo x > bin/inner/x; chmod 750 bin/inner
ln -sf src link; mkdir new; mv old new/old; echo y > new/y; chmod 700 new/y; chmod 555 new
"""


async def test_everything(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh(EVERYTHING)
        before = tree(str(box.lower))
        found = changes(box.layer)
        assert tree(str(box.lower)) == before
        applied = await found.apply()
        assert applied.paths == tuple(change.path for change in found)
        assert (applied.unchanged, applied.skipped) == ((), ())
        assert tree(str(box.lower)) == box.tree()
        assert len(changes(box.layer)) == 0
    assert not list((tmp_path / "state" / "applying").iterdir())


async def test_a_copy(tmp_path: Path) -> None:
    layer = copied(tmp_path, project)
    edit(layer, EVERYTHING)
    found = changes(layer)
    await found.apply()
    assert tree(layer.lower) == tree(layer.upper)
    assert len(changes(layer)) == 0


async def test_again_and_again(tmp_path: Path) -> None:
    """What was applied is what the next changes are compared with: no conflict with ourselves, but with others."""
    with mounted(tmp_path, project) as box:
        for turn in range(3):
            box.sh(
                f"echo {turn} > src/a.py; mkdir -p new/dir; echo {turn} > new/dir/x; rm -f src/b.py; echo {turn} > z{turn}"
            )
            found = changes(box.layer)
            assert found.conflicts == ()
            await found.apply()
            assert tree(str(box.lower)) == box.tree()
        box.sh("rm new/dir/x; echo b > src/b.py")
        assert operations(changes(box.layer)) == {"new/dir/x": "delete", "src/b.py": "create"}
        await changes(box.layer).apply()
        (box.lower / "new" / "dir" / "theirs").write_text("the sandbox never saw it")
        (box.lower / "src" / "a.py").write_text("theirs")
        box.sh("echo mine > src/a.py; echo x > new/dir/x")
        found = changes(box.layer)
        assert operations(found) == {"src/a.py": "update", "new/dir/x": "create"}
        assert [change.path for change in found.conflicts] == ["/workspace/src/a.py"]


async def test_a_copy_again_and_again(tmp_path: Path) -> None:
    layer = copied(tmp_path, project)
    for script in (
        "echo two > src/a.py; mkdir new; echo x > new/x; rm src/b.py",
        "echo three > src/a.py; echo y > new/y; echo b > src/b.py",
        "rm new/x src/b.py; echo z > new/y",
        "rm -r new; mkdir src/b.py",
    ):
        edit(layer, script)
        found = changes(layer)
        assert found.conflicts == ()
        await found.apply()
        assert tree(layer.lower) == tree(layer.upper)
    edit(layer, "echo mine > src/a.py")
    (Path(layer.lower) / "src" / "a.py").write_text("theirs\n")
    (Path(layer.lower) / "theirs").write_text("theirs\n")
    assert [change.path for change in changes(layer).conflicts] == ["/workspace/src/a.py"]


async def test_deep_trees(tmp_path: Path) -> None:
    """Deeper than a path can be long, there and back."""
    with mounted(tmp_path, project) as box:
        box.do("""
        import os
        here = os.getcwd()
        for level in range(300):
            os.mkdir("a" * 20); os.chdir("a" * 20)
        open("file", "w").write("deep")
        os.chdir(here)
        """)
        assert len((await changes(box.layer).apply()).paths) == 301
        assert len(changes(box.layer)) == 0
        box.sh(f"rm -r {'a' * 20}")
        assert len((await changes(box.layer).apply()).paths) == 301
        assert not (box.lower / ("a" * 20)).exists()


async def test_many_files(tmp_path: Path) -> None:
    """More than are waited for one by one."""
    with mounted(tmp_path, project) as box:
        box.sh("mkdir many; for i in $(seq 100); do echo $i > many/$i; done")
        assert len((await changes(box.layer).apply()).paths) == 101
        assert tree(str(box.lower)) == box.tree()


async def test_some_paths(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh(EVERYTHING)
        found = changes(box.layer)
        assert (await found.apply(["/workspace/src/a.py"])).paths == ("/workspace/src/a.py",)
        assert (box.lower / "src" / "a.py").read_text() == "two\n"
        assert (box.lower / "src" / "b.py").exists()
        applied = await found.apply(["/workspace/bin/inner/x"])
        assert applied.paths == ("/workspace/bin", "/workspace/bin/inner", "/workspace/bin/inner/x")
        assert (box.lower / "bin" / "inner" / "x").read_text() == "x\n"
        applied = await found.apply("/workspace/old")
        assert applied.paths == ("/workspace/new", "/workspace/new/old")
        assert not (box.lower / "old").exists()
        applied = await found.apply(["/workspace/src/"])
        assert applied.unchanged == ("/workspace/src/a.py",)
        assert "/workspace/src/deep" in applied.paths
        await found.apply()
        assert tree(str(box.lower)) == box.tree()


async def test_paths_that_are_not_there(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py")
        before = tree(str(box.lower))
        found = changes(box.layer)
        for path in ("/workspace/src/b.py", "/workspace/nothing", "/etc", "/workspace/src/a.py/x"):
            with pytest.raises(NotFoundError, match=r"What changed: /workspace/src/a\.py"):
                await found.apply(["/workspace/src/a.py", path])
        assert tree(str(box.lower)) == before
        await found.apply(["/workspace"])
        assert (box.lower / "src" / "a.py").read_text() == "two\n"


async def test_what_was_not_shown_is_not_applied(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo shown > src/a.py; echo n > n; rm src/b.py; ln -s a l; mkdir d")
        before = tree(str(box.lower))
        for later in (
            "echo later > src/a.py",
            "chmod 755 src/a.py",
            "rm src/a.py",
            "rm n; mkfifo n",
            "rm n; ln -s /etc/passwd n",
            "echo back > src/b.py",
            "ln -sfn b l",
            "chmod 700 d",
            "rmdir d; echo > d",
        ):
            found = changes(box.layer)
            box.sh(later)
            with pytest.raises(ConflictError, match=r"changed since changes\(\) was called"):
                await found.apply()
            with pytest.raises(ConflictError):
                await found.apply(overwrite=True)
            box.sh(
                "rm -rf n l d; echo shown > src/a.py; chmod 644 src/a.py; echo n > n; rm -f src/b.py; ln -s a l; mkdir d"
            )
        assert tree(str(box.lower)) == before
        found = changes(box.layer)
        box.sh("touch src/a.py; cp n n2; mv n2 n")  # the same bytes
        await found.apply()
        assert (box.lower / "src" / "a.py").read_text() == "shown\n"


async def test_a_host_that_changed_after_the_look(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py; rm src/b.py; echo n > n; rm -r src/deep; ln -sfn x link")
        found = changes(box.layer)
        for change in (
            lambda: (box.lower / "src" / "a.py").write_text("theirs"),
            lambda: (box.lower / "src" / "b.py").write_text("theirs"),
            lambda: (box.lower / "n").write_text("theirs"),
            lambda: (box.lower / "src" / "deep" / "more").write_text("theirs"),
            lambda: os.rename(_linked(tmp_path), box.lower / "link"),
        ):
            change()
            before = tree(str(box.lower))
            with pytest.raises(ConflictError):
                await found.apply()
            with pytest.raises(ConflictError):
                await found.apply(overwrite=True)
            assert tree(str(box.lower)) == before
            found = changes(box.layer)
        assert len(found.conflicts) == 6  # with the directory that something came into
        await found.apply(overwrite=True)
        assert tree(str(box.lower)) == box.tree()


def _linked(top: Path) -> Path:
    (top / "linked").symlink_to("theirs")
    return top / "linked"


async def test_conflicts(tmp_path: Path) -> None:
    """Changed by the host since the sandbox began, whenever the look is; what the host left alone is applied."""
    with mounted(tmp_path, project) as box:
        (box.lower / "src" / "a.py").write_text("theirs\n")
        (box.lower / "n").write_text("theirs\n")
        box.sh("echo two > src/b.py; rm -f src/a.py; echo mine > src/a.py; echo mine > n")
        found = changes(box.layer)
        assert {change.path for change in found.conflicts} == {"/workspace/src/a.py", "/workspace/n"}
        before = tree(str(box.lower))
        with pytest.raises(ConflictError, match=r"/workspace/n.*/workspace/src/a\.py.*changed on the host") as caught:
            await found.apply()
        assert caught.value.path == "/workspace/n"
        assert tree(str(box.lower)) == before
        await found.apply(["/workspace/src/b.py"])
        await found.apply(overwrite=True)
        assert tree(str(box.lower)) == box.tree()


async def test_conflicts_of_a_copy(tmp_path: Path) -> None:
    layer = copied(tmp_path, project)
    lower, upper = tmp_path / "lower", tmp_path / "copy"
    (upper / "src" / "a.py").write_text("mine\n")
    (upper / "src" / "b.py").write_text("mine\n")
    (upper / "bin").unlink()
    (upper / "n").write_text("mine\n")
    (upper / "old").write_text("fine\n")
    (lower / "src" / "a.py").write_text("theirs\n")
    (lower / "src" / "b.py").unlink()
    (lower / "bin").write_text("theirs\n")
    (lower / "n").write_text("theirs\n")
    found = by_path(changes(layer))
    assert {path: (change.conflict or "").split(" on ")[0] for path, change in found.items()} == {
        "bin": "It was changed",
        "n": "It appeared",
        "old": "",
        "src/a.py": "It was changed",
        "src/b.py": "It was removed",
    }
    await changes(layer).apply(["/workspace/old"])
    assert (lower / "old").read_text() == "fine\n"


async def test_removed_by_the_host(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo more >> src/a.py; echo more >> src/b.py")
        (box.lower / "src" / "a.py").unlink()
        found = changes(box.layer)
        assert [(change.path, change.conflict) for change in found.conflicts] == [
            ("/workspace/src/a.py", "It seems to have been removed on the host after the sandbox began.")
        ]


async def test_what_came_into_a_directory_that_is_deleted(tmp_path: Path) -> None:
    """Files that are older than the sandbox, which never saw them; a directory that nobody touched goes."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "precious").write_text("precious\n")
    with mounted(tmp_path, project) as box:
        box.sh("rm -r src")
        (tmp_path / "old").rename(box.lower / "src" / "deep" / "old")
        found = changes(box.layer)
        assert [change.path for change in found.conflicts] == ["/workspace/src/deep", "/workspace/src/deep/old"]
        with pytest.raises(ConflictError):
            await found.apply()
        assert (box.lower / "src" / "deep" / "old" / "precious").exists()
        (box.lower / "src" / "deep" / "old").rename(tmp_path / "old")
        await found.apply(["/workspace/src/a.py"])
    with mounted(tmp_path / "other", project) as box:
        box.sh("rm -r src")
        await changes(box.layer).apply()
        assert not (box.lower / "src").exists()


async def test_directories_that_come_and_go(tmp_path: Path) -> None:
    """What we put into a directory ourselves does not keep it from being deleted."""
    with mounted(tmp_path, project) as box:
        for script in (
            "mkdir -p src/new/in; echo x > src/new/x",
            "rm src/new/x; mkdir src/more",
            "rm -r src/new",
            "rm -r src",
        ):
            box.sh(script)
            found = changes(box.layer)
            assert found.conflicts == ()
            await found.apply()
            assert tree(str(box.lower)) == box.tree()


async def test_the_mode_of_a_directory(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("chmod 700 src")
        found = changes(box.layer)
        (box.lower / "src").chmod(0o711)
        with pytest.raises(ConflictError):
            await found.apply()
        await changes(box.layer).apply()
        assert os.lstat(box.lower / "src").st_mode & 0o777 == 0o700


async def test_a_link_on_the_host(tmp_path: Path) -> None:
    """Whoever swaps a directory of the host for a link: nothing is written through it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("outside\n")
    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py; echo n > src/n")
        found = changes(box.layer)
        (box.lower / "src").rename(box.lower / "aside")
        (box.lower / "src").symlink_to(outside)
        with pytest.raises(ConflictError):
            await found.apply(overwrite=True)
        assert sorted(path.name for path in outside.iterdir()) == ["a.py"]
        assert (outside / "a.py").read_text() == "outside\n"
        (box.lower / "src").unlink()
        (box.lower / "aside").rename(box.lower / "src")
        await found.apply()
        assert (box.lower / "src" / "n").read_text() == "n\n"


async def test_modes_and_special_files(tmp_path: Path) -> None:
    """What can be applied is, without set-uid; pipes are skipped and told."""
    with mounted(tmp_path, project) as box:
        box.sh(
            "mkfifo pipe; echo x > x; chmod 4755 x; echo z > z; chmod 000 z; mkdir shut; echo s > shut/s; chmod 0 shut"
        )
        applied = await changes(box.layer).apply()
        assert applied == Applied(
            ("/workspace/shut", "/workspace/shut/s", "/workspace/x", "/workspace/z"), (), ("/workspace/pipe",)
        )
        assert [os.lstat(box.lower / name).st_mode & 0o7777 for name in ("x", "z", "shut")] == [0o755, 0, 0]
        assert os.listxattr(box.lower / "x") == []
        assert not os.path.lexists(box.lower / "pipe")


async def test_consent(tmp_path: Path) -> None:
    asked: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> bool:
        asked.append(request)
        return len(asked) > 1

    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py; echo n > n")
        before = tree(str(box.lower))
        with pytest.raises(NotAuthorizedError):
            await changes(box.layer, policy="deny-all").apply()
        with consenting.begun_by("model"), pytest.raises(NotAuthorizedError):
            await changes(box.layer, policy="approve-all").apply()
        found = changes(box.layer, policy=answer)
        with pytest.raises(NotAuthorizedError):
            await found.apply()
        assert tree(str(box.lower)) == before
        await found.apply()
        assert tree(str(box.lower)) == box.tree()
    (request, _) = asked
    assert (request.action, request.subject, request.digest) == ("apply", str(box.lower), found.digest)
    assert request.summary == "1 created, 1 changed"


async def test_approvals_are_for_what_was_shown(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py; echo n > n")
        found = changes(box.layer, policy="deny-all")
        one = found.choose(["/workspace/n"])
        approval = consenting.offer("apply", one.subject, one.digest)
        with pytest.raises(NotAuthorizedError, match="something else"):
            await found.apply(approval=approval)
        approval = consenting.offer("apply", one.subject, one.digest)
        await found.apply(["/workspace/n"], approval=approval)
        with pytest.raises(NotAuthorizedError, match="used already"):
            await found.apply(["/workspace/n"], approval=approval)
        assert (box.lower / "n").read_text() == "n\n"
        assert (box.lower / "src" / "a.py").read_text() == "one\n"


async def test_the_digest(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        seen = set()
        for words in (
            "echo a > n",
            "echo b > n",
            "chmod 755 n",
            "mv n m",
            "rm m; ln -s x m",
            "ln -sfn y m",
            "rm src/a.py",
        ):
            box.sh(words)
            seen.add(changes(box.layer).digest)
        assert len(seen) == 7
        assert changes(box.layer).digest in seen


async def test_discard(tmp_path: Path) -> None:
    """The sandbox sees what the host has; the host is as it was."""
    with mounted(tmp_path, project) as box:

        async def restore(findings: Findings) -> None:
            inside = DescriptorDir.at(box.inside)
            try:
                restoring.restore(findings, [inside])
            finally:
                inside.close()

        box.sh(EVERYTHING + "mkfifo pipe; chmod 755 old 2>/dev/null || true")
        before = tree(str(box.lower))
        found = ChangeSet(look([box.layer]), consent(), restore=restore)
        await found.discard()
        assert tree(str(box.lower)) == before
        assert box.tree() == before
        assert len(changes(box.layer)) == 0
        with pytest.raises(ConflictError, match="discarded"):
            await found.apply()
        with pytest.raises(UnsupportedError):
            await changes(box.layer).discard()


async def test_a_sequence(tmp_path: Path) -> None:
    with mounted(tmp_path, project) as box:
        box.sh("echo two > src/a.py; echo n > n; echo 'all:' > Makefile")
        found = changes(box.layer)
    assert (len(found), found[0].path, [change.path for change in found.flagged]) == (
        3,
        "/workspace/Makefile",
        ["/workspace/Makefile"],
    )
    assert found[1:] == found.changes[1:]
    assert list(found) == list(found.changes)
    assert repr(found) == "<ChangeSet 2 created, 1 changed, 1 to look at twice>"


async def test_directories_that_are_read_only(tmp_path: Path) -> None:
    """Their owner may not write there: opened while it lasts, and closed again."""
    uid = 1000 if os.geteuid() == 0 else None

    def fill(top: Path) -> None:
        project(top)
        (top / "src").chmod(0o555)

    top = _reachable(tmp_path)
    with mounted(top, fill, uid=uid) as box:
        box.sh("chmod 755 src; echo two > src/a.py; rm src/b.py; echo n > src/n; chmod 555 src")
        await changes(box.layer).apply()
        assert tree(str(box.lower)) == box.tree()
        assert os.lstat(box.lower / "src").st_mode & 0o777 == 0o555


def _reachable(path: Path) -> Path:
    """pytest's directories are for their owner alone."""
    for above in (path, *path.parents):
        if os.lstat(above).st_uid == os.geteuid() and above not in (Path("/"), Path("/tmp")):
            above.chmod(0o755)
    return path / "box"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works for somebody else")
async def test_owners(tmp_path: Path) -> None:
    """For root: what is made in somebody's directory is theirs."""
    with mounted(_reachable(tmp_path), project, uid=1000) as box:
        box.sh(EVERYTHING + "mkdir shut; echo s > shut/s; chmod 000 shut/s shut")
        assert os.lstat(box.upper / "new").st_uid == 1000
        await changes(box.layer).apply()
        owners = {(os.lstat(path).st_uid, os.lstat(path).st_gid) for path in box.lower.rglob("*")}
        assert owners == {(1000, 1000)}
        (left,) = changes(box.layer)
        assert (left.path, left.conflict) == ("/workspace/shut/s", "It cannot be read on the host.")
        assert os.lstat(box.upper / "shut").st_mode & 0o777 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of several owners")
async def test_owners_in_roots_directory(tmp_path: Path) -> None:
    def fill(top: Path) -> None:
        project(top)
        os.chown(top / "src", 1000, 1000)
        os.chown(top / "src" / "a.py", 1001, 1001)

    with mounted(tmp_path, fill) as box:
        box.sh("echo two > src/a.py; echo n > src/n; echo m > m; mkdir src/d")
        await changes(box.layer).apply()
        owners = {name: os.lstat(box.lower / name).st_uid for name in ("src/a.py", "src/n", "m", "src/d")}
    assert owners == {"src/a.py": 1001, "src/n": 1000, "m": 0, "src/d": 1000}


def test_nothing_to_recover() -> None:
    assert recover() == ()


@pytest.mark.parametrize("script", ["rm -r src", "rm -r src; echo > src"])
async def test_what_came_into_a_directory_that_is_gone_in_a_copy(tmp_path: Path, script: str) -> None:
    layer = copied(tmp_path, project)
    edit(layer, f"{script}; echo other > other")
    assert changes(layer).conflicts == ()
    lower = Path(layer.lower)
    (lower / "src" / "theirs").write_text("theirs\n")
    found = changes(layer)
    assert [change.path for change in found.conflicts] == ["/workspace/src"]
    before = tree(layer.lower)
    for overwrite in (False, True):
        with pytest.raises(ConflictError) as caught:
            await found.apply(overwrite=overwrite)
        assert "apply the other changes by path" in caught.value.hint
        assert tree(layer.lower) == before
    await found.apply(["/workspace/other"])
    (lower / "src" / "theirs").unlink()
    await changes(layer).apply(overwrite=True)
    assert tree(layer.lower) == tree(layer.upper)
