"""What `make bench-peers` needs beside the measuring: a page of one run, and peers that are not there."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks import peers

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_of_one_run() -> None:
    """Each time in the table is in the picture, and the other way round."""
    page = (ROOT / "docs" / "performance.md").read_text()
    block = page.partition(peers.MARKS[0])[2].partition(peers.MARKS[1])[0]
    table = dict(re.findall(r"^\| (.+?) \| ([\d.]+ ms) \|", block, re.MULTILINE))
    bars = re.findall(r">([^<]+)</text><rect[^>]+/><text[^>]+>([\d.]+ ms):", (ROOT / "docs" / "peers.svg").read_text())
    assert len(table) > 2
    assert dict(bars) == table


def test_a_table_is_written_in_its_place() -> None:
    begin, end = peers.MARKS
    assert peers.between(f"a\n{begin}old\n{end}b\n", "new\n") == f"a\n{begin}\nnew\n\n{end}b\n"
    with pytest.raises(ValueError, match="the page has no"):
        peers.between("a page without marks", "new")


def test_who_is_not_there_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither where nothing was installed, nor where a package could not be had."""
    for _ in range(2):
        with ExitStack() as stack:
            assert [*peers._swe_rex(tmp_path, stack), *peers._srt(tmp_path)] == []
        assert capsys.readouterr().err.count("is not measured") == 2
        (tmp_path / "bin").mkdir(exist_ok=True)
        program(tmp_path / "bin" / "python", f'exec {sys.executable} -S "$@"')


@pytest.mark.parametrize("works", [True, False])
def test_what_could_not_be_had_is_tried_again(tmp_path: Path, works: bool) -> None:
    status = 0 if works else 1
    place = tmp_path / "peers"
    for name in ("npm", "rg", "socat"):
        program(tmp_path / name, f"exit {status if name == 'npm' else 0}")
    python = tmp_path / "python"
    program(python, 'mkdir -p "$3/bin" && cp "$0.made" "$3/bin/python"')
    program(tmp_path / "python.made", "exit 0")
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(2):
        done = subprocess.run(
            [ROOT / "scripts" / "peers.sh", place, python], env=env, check=True, capture_output=True, text=True
        )
        assert ("srt is not measured" in done.stderr) != works
    assert (place / ".installed").exists() == works


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
