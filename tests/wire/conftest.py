"""Programs that several tests need, compiled once."""

from pathlib import Path

import pytest

from wire.building import Sanitized, compile_program


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    return Sanitized(tmp_path_factory.mktemp("sanitized"))


@pytest.fixture(scope="session")
def decode_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(tmp_path_factory.mktemp("decode") / "decode", ["tests/decode.c", "wire.c"])
