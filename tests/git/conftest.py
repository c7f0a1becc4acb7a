"""A workspace on this host with a gate over it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.audit import EventBus
from paddock.consent import Consent
from paddock.git import Git, GitContext, HostFiles


class Desk:
    """A workspace and its gate."""

    def __init__(self, place: Path, files: HostFiles) -> None:
        self.place = place
        self.files = files
        self.git = self.gate()

    def gate(self, policy: Any = None, **context: Any) -> Git:
        """Another gate over the same workspace."""
        bus = EventBus("sb-desk", None)
        return Git(self.files, Consent(policy, bus, "sb-desk"), GitContext(**{"sandbox": "sb-desk", **context}))

    def put(self, name: str, content: str | bytes, *, executable: bool = False) -> None:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if executable else 0o644)

    def read(self, name: str) -> str:
        return (self.place / name).read_text(encoding="utf-8")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    place = tmp_path / "workspace"
    place.mkdir()
    with HostFiles(place) as files:
        yield Desk(place, files)
