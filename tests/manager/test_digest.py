"""When one sandbox can serve two requests: the same options, whichever objects and whichever process."""

import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from paddock import ConfigError, Docker, Limits, Manager, Secret
from paddock.manager.digest import digest


class Plain:
    """An option whose repr has its address."""

    def __init__(self, value: object) -> None:
        self.value = value

    def call(self) -> None:
        pass


def some_function() -> None:
    pass


SAME: tuple[Callable[[], Any], ...] = (
    lambda: {"env": {"A": "1", "B": "2"}, "limits": Limits(memory="1g"), "backend": Docker(runtime="runsc")},
    lambda: [Secret("token", ("example.org",), "s3cret")],
    lambda: [Plain(1), Plain([Plain(2)]), Plain(3).call, partial(some_function), {"x", "y"}],
    lambda: [some_function, Plain, Path("/x"), b"x", None, True, 1.5],
)


@pytest.mark.parametrize("make", SAME)
def test_the_same_request_has_the_same_digest(make: Callable[[], Any]) -> None:
    assert digest(make()) == digest(make()) == digest(deepcopy(make()))


def test_other_requests_have_another_digest() -> None:
    values: tuple[Any, ...] = (
        *(Secret("t", (), value) for value in ("one", "two", None)),
        Secret("t", ("example.org",), "one"),
        *(Plain(1), Plain("1"), Plain(None), Plain([]), Plain({}), Plain(b"")),
        *(1, "1", 1.5, None, True, b"1", "b'1'", {"1": 1}, {1: 1}, [["1", 1]], [], {}),
        *(Limits(memory="1g"), Limits(memory="2g"), Limits(disk="1g"), some_function, Plain, Plain(1).call, Path("1")),
        *(["secret", "t", [], None], ["bytes", "31"], ["list"]),
    )
    assert len({digest(value) for value in values}) == len(values)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    inside: list[Any] = []
    inside.append(inside)
    with pytest.raises(ConfigError):
        digest(inside)


def test_the_digest_is_the_same_in_another_process() -> None:
    code = "from manager.test_digest import SAME, digest; print(*[digest(make()) for make in SAME])"
    where = Path(__file__).parent.parent
    again = subprocess.run([sys.executable, "-c", code], cwd=where, capture_output=True, text=True, check=True)
    assert again.stdout.split() == [digest(make()) for make in SAME]


def test_a_request_with_another_secret_is_another() -> None:
    def asked(value: str) -> str:
        options = {"secrets": [Secret("token", ("example.org",), value)], "mounts": [Plain(1)]}
        return Manager()._asking.ask("alice", "chat", None, None, None, (None, None), None, options).digest

    assert asked("one") == asked("one") != asked("two")
