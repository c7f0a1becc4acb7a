"""The benchmarks run, on a small scale: what they say is for people, that they work is for this test."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from benchmarks.bench import Scale, opened
from benchmarks.measure import Check, Result
from benchmarks.run import CASES

TINY = Scale(rounds=2, calls=10, few_rounds=2, files=20, directories=2, stream=4 << 20, fleet=(3, 20))


@pytest.mark.parametrize("name", CASES)
def test_each_case(name: str) -> None:
    with TemporaryDirectory(prefix="b-", dir="/tmp") as short, opened(TINY, Path(short)) as bench:  # for sockets
        rows = list(CASES[name](bench))
    assert rows
    for row in rows:
        if isinstance(row, Result):
            assert math.isfinite(row.ratio)
            assert row.baseline > 0
        else:
            assert isinstance(row, Check)
            assert row.words
