"""File calls of root, made as somebody else: with none of root's groups, and never for longer than the call."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.dirs import owned
from paddock.dirs.owned import OwnedDir, User

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

SOMEBODY, OUR_GROUP = 12345, 54321


@pytest.fixture(autouse=True)
def our_groups() -> Iterator[None]:
    before = os.getgroups()
    os.setgroups([0, OUR_GROUP])
    yield
    assert _who() == (0, 0, [0, OUR_GROUP])
    os.setgroups(before)


def _who() -> tuple[int, int, list[int]]:
    """Whom the kernel takes this thread for, in file calls."""
    with open("/proc/thread-self/status", encoding="ascii") as file:
        lines = dict(line.rstrip("\n").split(":", 1) for line in file)
    return int(lines["Uid"].split()[3]), int(lines["Gid"].split()[3]), sorted(map(int, lines["Groups"].split()))


def test_what_only_our_groups_may_do(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("for the group")
    os.chown(tmp_path / "f", 0, OUR_GROUP)
    os.chmod(tmp_path / "f", 0o640)
    (tmp_path / "d").mkdir()
    os.chmod(tmp_path / "d", 0o770)
    directory = OwnedDir(os.open(tmp_path, os.O_PATH | os.O_DIRECTORY), User(SOMEBODY, SOMEBODY))
    with pytest.raises(PermissionError):
        directory.open("f")
    with pytest.raises(PermissionError):
        directory.write("d/x", b"", None)


def test_other_threads_stay_who_they_are() -> None:
    user, seen = User(SOMEBODY, SOMEBODY), list[object]()
    now = threading.Event()
    other = threading.Thread(target=lambda: seen.append(_who() if now.wait(20) else None))
    other.start()
    with user:
        assert _who() == (SOMEBODY, SOMEBODY, [])
        now.set()
        other.join()
    assert seen == [(0, 0, [0, OUR_GROUP])]
    assert user.can_be()
    with user.alone():
        assert _who() == (SOMEBODY, 0, [0, OUR_GROUP])


@pytest.mark.parametrize("call", ["_setfsuid", "_setfsgid", "_syscall"])
@pytest.mark.parametrize("when", [1, 2])
def test_a_signal_between_the_calls(call: str, when: int) -> None:
    """Its handler raises just after one of them, on the way in or on the way out."""
    user = User(SOMEBODY, SOMEBODY)
    setattr(user, call, _interrupted(getattr(user, call), when))
    with pytest.raises(KeyboardInterrupt), user:
        assert when == 2


def _interrupted(real: Callable[..., int], when: int) -> Callable[..., int]:
    calls = 0

    def function(*arguments: object) -> int:
        nonlocal calls
        calls += 1
        result = real(*arguments)
        if calls == when:
            raise KeyboardInterrupt
        return result

    return function


def test_groups_that_cannot_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    user = User(SOMEBODY, SOMEBODY)
    monkeypatch.setattr(owned, "_SETGROUPS", -1)
    assert not user.can_be()
    with pytest.raises(PermissionError), user:
        raise AssertionError("it must not come to this")
