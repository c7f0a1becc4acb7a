"""Values that cross borders: checked when they are made, and stable when serialised."""

import dataclasses
import json
import pickle
from typing import Any

import pytest

from paddock import (
    Chunk,
    ConfigError,
    Event,
    ExecResult,
    FileEvent,
    FileInfo,
    Guarantee,
    Isolation,
    Limits,
    Match,
    Mount,
    Network,
    ProcessInfo,
    Secret,
    Usage,
)
from paddock.driver import Capabilities
from paddock.types import Record, parse_size

HELD = Guarantee(True, "kernel")
SHAPES: list[tuple[Record, dict[str, Any]]] = [
    (Usage(0.5, 1024), {"cpu": 0.5, "memory": 1024}),
    (Chunk("stdout", b"\xff"), {"stream": "stdout", "data": "/w=="}),
    (
        ExecResult(0, b"out", b"err", True, 1.5, Usage(1.0, 2), "memory"),
        {
            "exit_code": 0,
            "stdout_bytes": "b3V0",
            "stderr_bytes": "ZXJy",
            "truncated": True,
            "duration": 1.5,
            "usage": {"cpu": 1.0, "memory": 2},
            "limit": "memory",
        },
    ),
    (ProcessInfo(1, ("ls", "-l"), 2.0), {"pid": 1, "command": ["ls", "-l"], "started": 2.0, "exit_code": None}),
    (
        FileInfo("f", "/workspace/f", "file", 3, 0o644, 1.0),
        {
            "name": "f",
            "path": "/workspace/f",
            "kind": "file",
            "size": 3,
            "mode": 0o644,
            "mod_time": 1.0,
            "target": None,
        },
    ),
    (Match("/f", 2, "text"), {"path": "/f", "line": 2, "text": "text"}),
    (FileEvent("created", "/f"), {"kind": "created", "path": "/f"}),
    (
        Event(1.0, "sb-1", "file", "read", "/f", "ok", 0.1, 5),
        {
            "time": 1.0,
            "sandbox": "sb-1",
            "kind": "file",
            "operation": "read",
            "subject": "/f",
            "outcome": "ok",
            "duration": 0.1,
            "size": 5,
            "count": None,
            "target": None,
            "initiator": "host",
        },
    ),
    (
        Isolation(HELD, HELD, HELD, Guarantee(False, "nothing"), {"pids": HELD}, HELD),
        {
            "files": {"enforced": True, "by": "kernel"},
            "processes": {"enforced": True, "by": "kernel"},
            "network": {"enforced": True, "by": "kernel"},
            "syscalls": {"enforced": False, "by": "nothing"},
            "limits": {"pids": {"enforced": True, "by": "kernel"}},
            "secrets": {"enforced": True, "by": "kernel"},
        },
    ),
    (
        Limits(memory="2g"),
        {
            "memory": 2 << 30,
            "cpu": None,
            "pids": 1024,
            "disk": None,
            "tmp": 1 << 30,
            "open_files": 4096,
            "file_size": None,
            "best_effort": False,
        },
    ),
    (
        Mount("/data", "/data/", "ro", (".MD",), "1k"),
        {"source": "/data", "target": "/data", "mode": "ro", "suffixes": [".md"], "max_file_bytes": 1024},
    ),
    (Network.allow("example.org"), {"policy": "allow", "hosts": ["example.org"], "private": []}),
]


@pytest.mark.parametrize(("value", "shape"), SHAPES, ids=lambda item: type(item).__name__)
def test_shapes(value: Record, shape: dict[str, Any]) -> None:
    assert value.to_dict() == shape
    assert type(value).from_dict(json.loads(json.dumps(shape))) == value
    assert type(value).from_dict(shape | {"from": "the future"}) == value
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, next(iter(shape)), 1)


def test_text_of_output() -> None:
    result = ExecResult(0, b"ok\xff", "é".encode())
    assert (result.stdout, result.stderr) == ("ok\ufffd", "é")
    assert Chunk("stdout", b"\xff").text == "\ufffd"


def test_capabilities_are_data() -> None:
    assert Capabilities(limits=frozenset({"pids", "cpu"})).to_dict()["limits"] == ["cpu", "pids"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 << 20),
        ("2g", 2 << 30),
        ("1.5g", 3 << 29),
        ("1t", 1 << 40),
        ("64k", 64 << 10),
        (" 64 K ", 64 << 10),
        ("2GiB", 2 << 30),
        ("2gb", 2 << 30),
        ("1000", 1000),
        ("7b", 7),
        (1000, 1000),
    ],
)
def test_sizes(text: int | str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1", 0, "0", "1.2.3g", "5q", "g", True, None, 1.5, "1e9", "²g", 1 << 62])
def test_what_is_not_a_size(text: Any) -> None:
    with pytest.raises(ConfigError, match="not a size"):
        parse_size(text)


def test_limits() -> None:
    assert Limits().asked() == frozenset()
    assert Limits(memory="1g", pids=5).asked() == {"memory", "pids"}
    assert Limits(pids=None).asked() == frozenset()
    wrong: list[dict[str, Any]] = [{"cpu": 0}, {"cpu": "2"}, {"pids": -1}, {"open_files": True}, {"memory": "lots"}]
    for options in wrong:
        with pytest.raises(ConfigError, match=next(iter(options))):
            Limits(**options)


@pytest.mark.parametrize(
    "arguments",
    [
        ("/x", "relative"),
        ("/x", "/"),
        ("/x", "/proc/x"),
        ("/x", "/a/../b"),
        ("/x", "/a\0"),
        ("/x", "/run/paddock/y"),
        ("~/x", "/data"),
        ("", "/data"),
        ("/x\0", "/data"),
        ("/x", "/data", "w"),
        ("/x", "/data", "ro", ".md"),
        ("/x", "/data", "ro", ("md",)),
        ("/x", "/data", "ro", None, "big"),
        ("/x", 5),
    ],
)
def test_mounts_that_cannot_be(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError):
        Mount(*arguments)


def test_a_mount_is_normalised() -> None:
    mount = Mount("data", "/a//b/./c/")
    assert (mount.target, mount.read_only) == ("/a/b/c", True)


def test_network_and_secrets() -> None:
    assert Network.none() == Network()
    assert Network.open().policy == "open"
    with pytest.raises(ConfigError):
        Network.allow("")
    secret = Secret("TOKEN", ("api.github.com",), value="hunter2")
    assert "hunter2" not in repr(secret)
    assert "hunter2" not in json.dumps(secret.to_dict())


def test_guarantees_are_true_or_false() -> None:
    assert HELD
    assert not Guarantee(False, "nothing")
