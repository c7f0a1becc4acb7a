"""A run's results as a table for people and as JSON for programs."""

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.measure import Check, Result, Row

_HEAD = ("case", "ours", "baseline", "against", "ratio", "quartiles", "hold", "ok")
_RIGHT = {"ours", "baseline", "ratio", "hold"}


def table(rows: Iterable[Row]) -> str:
    """The results, aligned; checks below them."""
    rows = list(rows)
    cells = [_HEAD, *(_cells(row) for row in rows if isinstance(row, Result))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(line, widths) for line in cells] if len(cells) > 1 else []
    checks = [f"{row.case}: {row.words}  {_ok(row.ok)}" for row in rows if isinstance(row, Check)]
    return "\n".join([*lines, *checks])


def save(rows: Iterable[Row], path: Path, *, directory: Path, quick: bool) -> None:
    """Write the results to `path`; times are in seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "directory": str(directory),
        "quick": quick,
        "results": [asdict(row) | {"ok": row.ok} for row in rows if isinstance(row, Result)],
        "checks": [asdict(row) for row in rows if isinstance(row, Check)],
    }
    path.write_text(json.dumps(data, indent=2) + "\n")


def _cells(row: Result) -> tuple[str, ...]:
    spread = "  ".join(f"{part:.2f}" for part in row.quartiles)
    hold = "" if row.hold is None else f"{row.hold:g}"
    return (
        row.case,
        _time(row.ours),
        _time(row.baseline),
        row.against,
        f"{row.ratio:.2f}",
        spread,
        hold,
        _ok(row.ok),
    )


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    padded = (
        cell.rjust(width) if name in _RIGHT else cell.ljust(width)
        for name, cell, width in zip(_HEAD, cells, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def _ok(ok: bool | None) -> str:
    return "" if ok is None else "yes" if ok else "NO"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
