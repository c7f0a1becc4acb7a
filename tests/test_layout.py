"""Directories of this host that are to be shown, looked at before anything is started."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock import ConfigError, Mount
from paddock.sandbox.layout import lay_out

SOMEBODY = 200_000


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A directory of an ordinary user, whom this test is meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody whose own modes keep him out")
    with tempfile.TemporaryDirectory() as path:
        os.chown(path, SOMEBODY, SOMEBODY)
        os.seteuid(SOMEBODY)
        try:
            yield Path(path)
        finally:
            os.seteuid(0)


def test_a_directory_that_may_not_be_entered(theirs: Path) -> None:
    for make in (True, False):
        theirs.chmod(0o600)
        with pytest.raises(ConfigError, match="may not enter the host directory of '/workspace'"):
            lay_out(None, None, theirs, None, (), make=make)
        with pytest.raises(ConfigError, match="may not enter the host directory of '/data'"):
            lay_out(None, None, None, None, [Mount(theirs, "/data")], make=make)
        theirs.chmod(0o100)
        assert lay_out(None, None, theirs, None, (), make=make).mounts[0].source == str(theirs)
