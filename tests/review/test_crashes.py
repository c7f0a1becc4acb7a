"""Killed at any moment of an apply: the next run ends in exactly the old or exactly the new, and leaves nothing behind."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paddock import state
from paddock.review import applying, recover
from paddock.review.journal import Recovered
from paddock.types.review import Layer
from review.layers import changes, copied, edit
from review.trees import tree

POINTS = 100 if os.environ.get("PADDOCK_SOAK") else 10
SCRIPT = """
echo two > src/a.py; rm src/b.py; rm -r src/deep; echo now-a-file > src/deep
rm bin; mkdir -p bin/inner; echo x > bin/inner/x; chmod 750 bin/inner
ln -sfn src link; mkdir new; mv old new/old; echo y > new/y; chmod 700 new/y; chmod 555 new
chmod 755 shut; echo in > shut/in; rm shut/out; chmod 555 shut; mkdir gone; echo g > gone/g; chmod 000 gone
"""


def project(top: Path) -> None:
    (top / "src" / "deep").mkdir(parents=True)
    (top / "shut").mkdir()
    for name in ("src/a.py", "src/b.py", "src/deep/c.py", "bin", "old", "shut/in", "shut/out"):
        (top / name).write_text(f"this is {name}\n")
    (top / "link").symlink_to("src/a.py")
    (top / "shut").chmod(0o555)
    if os.geteuid() == 0:  # somebody for whom modes count
        for path in (top, *top.rglob("*")):
            os.chown(path, 1000, 1000, follow_symlinks=False)


def run(what: str, layer: Layer, point: int) -> "subprocess.CompletedProcess[bytes]":
    here = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-m", "review.crasher", what, json.dumps(layer.to_dict()), str(point)],
        cwd=here,
        env={**os.environ, "PYTHONPATH": f"{here}:{here.parent / 'src'}"},
        stdout=subprocess.PIPE,
        check=False,
    )


def calls(top: Path, what: str = "apply") -> int:
    """How many there are when nobody is killed."""
    layer = copied(top, project)
    edit(layer, SCRIPT)
    done = run(what, layer, -1)
    assert done.returncode == 0
    assert tree_of(layer.lower) == tree_of(layer.upper)
    return int(done.stdout)


def tree_of(top: str) -> dict[str, tuple[object, ...]]:
    """As root, which can look into everything; others would need the modes changed."""
    locked = [path for path in (Path(top) / "gone",) if path.exists() and not os.access(path, os.R_OK)]
    for path in locked:
        path.chmod(0o700)
    try:
        found = tree(top)
    finally:
        for path in locked:
            path.chmod(0o000)
    return {name: ("directory", 0) if Path(top) / name in locked else entry for name, entry in found.items()}


@pytest.mark.timeout(600)
def test_killed_while_applying(tmp_path: Path) -> None:
    total = calls(tmp_path / "whole")
    points = random.Random(6).sample(range(total), min(POINTS, total))
    outcomes = set()
    for number, point in enumerate(points):
        layer = copied(tmp_path / f"{number}", project)
        edit(layer, SCRIPT)
        old, new = tree_of(layer.lower), tree_of(layer.upper)
        assert run("apply", layer, point).returncode == -signal.SIGKILL
        if number % 2:
            assert run("recover", layer, point // 2).returncode in (0, -signal.SIGKILL)
        recovered = recover()
        assert all(one.left == () for one in recovered), (point, recovered)
        now = tree_of(layer.lower)
        assert now in (old, new), point
        if recovered:
            assert (now == new) == recovered[0].finished
        assert os.listdir(state.state_directory() / "applying") == []
        assert all(change.conflict is None or "read" in change.conflict for change in changes(layer)), point
        outcomes.add(now == new)
    assert outcomes == {True, False}


def killed(top: Path, where: str) -> Layer:
    """One that was killed before it was committed, or when it wrote its first file to the host."""
    layer = copied(top / "killed", project)
    edit(layer, SCRIPT)
    assert run(where, layer, -1).returncode == -signal.SIGKILL
    return layer


def test_what_the_host_changed_after_the_crash_is_left(tmp_path: Path) -> None:
    layer = killed(tmp_path, "carrying")
    theirs = Path(layer.lower) / "src" / "a.py"
    theirs.write_text("theirs")
    (recovered,) = recover()
    assert [(left.path, left.why) for left in recovered.left] == [
        ("/workspace/src/a.py", "It was changed on the host meanwhile.")
    ]
    assert theirs.read_text() == "theirs"
    assert {**tree_of(layer.upper), "src/a.py": 0} == {**tree_of(layer.lower), "src/a.py": 0}
    assert [change.path for change in changes(layer).conflicts if "changed" in (change.conflict or "")] == [
        "/workspace/src/a.py"
    ]


def test_before_the_commit_it_never_was(tmp_path: Path) -> None:
    layer = killed(tmp_path, "staging")
    (undone,) = recover()
    assert undone == Recovered(undone.id, finished=False)
    assert (Path(layer.lower) / "src" / "a.py").read_text() == "this is src/a.py\n"


def test_a_directory_that_is_away(tmp_path: Path) -> None:
    """It may come back; then it is finished."""
    layer = killed(tmp_path, "carrying")
    Path(layer.lower).rename(tmp_path / "away")
    (recovered,) = recover()
    assert not recovered.finished
    (tmp_path / "away").rename(layer.lower)
    (recovered,) = recover()
    assert (recovered.finished, recovered.left) == (True, ())
    assert tree_of(layer.lower) == tree_of(layer.upper)


async def test_an_error_that_nobody_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the commit it is finished later; the journal is not lost with the call."""
    layer = copied(tmp_path, project)
    edit(layer, SCRIPT)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(applying, "carry_out", fail)
        with pytest.raises(MemoryError):
            await changes(layer).apply()
    (recovered,) = recover()
    assert recovered.finished
    assert tree_of(layer.lower) == tree_of(layer.upper)


def test_what_others_may_have_put_there_is_not_obeyed(tmp_path: Path) -> None:
    """A journal says what to write where: root, with the state directory of somebody else, would do it for them."""
    layer = killed(tmp_path, "carrying")
    there, before = state.state_directory(), tree_of(layer.lower)
    there.chmod(0o777)
    assert recover() == ()
    if os.geteuid() == 0:
        there.chmod(0o700)
        os.chown(there, 1000, 1000)
        assert recover() == ()
        os.chown(there, 0, 0)
    assert tree_of(layer.lower) == before
    there.chmod(0o700)
    (recovered,) = recover()
    assert recovered.finished
    assert tree_of(layer.lower) == tree_of(layer.upper)


def test_one_who_is_at_it_is_left_alone(tmp_path: Path) -> None:
    from paddock.review import journal

    with journal.begun() as held:
        assert recover() == ()
        assert held.staging.is_dir()
    assert os.listdir(state.state_directory() / "applying") == []
