"""The audit log: rotation, several writers, places that cannot be written."""

import json
import logging
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from paddock import ConfigError, Sandbox, UnavailableError
from paddock.audit import AuditLog, default_log

EVENT = (1.0, "sb-1", "file", "read", "/f", "ok", 0.1, 5, None, None, "host")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "deep/audit.jsonl")
    log.append(EVENT)
    log.flush()
    log.flush()
    assert _lines(tmp_path / "deep/audit.jsonl") == [
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
        }
    ]


def test_lines_arrive_without_a_flush(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.append(EVENT)
    waited = threading.Event()
    for _ in range(500):
        if (tmp_path / "audit.jsonl").read_text():
            return
        waited.wait(0.02)
    raise AssertionError("the line never came")


def test_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, max_bytes=1_000, keep=3)
    for number in range(100):
        log.append((*EVENT[:7], number, *EVENT[8:]))
        log.flush()
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.lock"]
    numbers = [
        line["size"] for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl") for line in _lines(tmp_path / name)
    ]
    assert numbers == list(range(numbers[0], 100))
    assert all(p.stat().st_size <= 1_000 for p in tmp_path.iterdir())


def _write_many(path: str, worker: int) -> None:
    log = AuditLog(Path(path))
    for number in range(200):
        log.append((*EVENT[:7], worker * 1000 + number, *EVENT[8:]))
        if number % 10 == 0:
            log.flush()
    log.flush()


def test_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write_many, args=(str(path), n)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(line["size"] for line in _lines(path)) == [w * 1000 + n for w in range(3) for n in range(200)]


def test_a_child_does_not_repeat_what_the_parent_writes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.append(EVENT)
    child = os.fork()
    if child == 0:
        log.append((*EVENT[:7], 6, *EVENT[8:]))
        log.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    log.flush()
    assert sorted(line["size"] for line in _lines(path)) == [5, 6]


def test_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "_open", full)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.append(EVENT)
            log.flush()
    assert [record.message for record in caplog.records] == ["events are being lost: No space left on device"]


async def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Sandbox.create("local"):
        pass
    assert len(_lines(tmp_path / "state/audit.jsonl")) == 2
    async with Sandbox.create("memory"):
        pass
    assert len(_lines(tmp_path / "state/audit.jsonl")) == 2
    monkeypatch.setenv("PADDOCK_AUDIT", "off")
    async with Sandbox.create("local"):
        pass
    assert len(_lines(tmp_path / "state/audit.jsonl")) == 2
    monkeypatch.setenv("PADDOCK_AUDIT", "relative")
    with pytest.raises(ConfigError, match="PADDOCK_AUDIT"):
        default_log()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PADDOCK_AUDIT", str(tmp_path / "file/audit.jsonl"))
    with pytest.raises(UnavailableError, match="PADDOCK_AUDIT"):
        await Sandbox.create("local")
