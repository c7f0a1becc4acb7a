"""`python -m benchmarks.run`: every case, a table of ratios, and the same as JSON."""

import argparse
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from benchmarks import commands, docker, files, namespaces, relays
from benchmarks.adapters import adapters
from benchmarks.agents import agents
from benchmarks.bench import FULL, QUICK, Bench, opened
from benchmarks.bridge import bridge
from benchmarks.egress import egress
from benchmarks.gateway import gateway
from benchmarks.imports import imports
from benchmarks.measure import Rows
from benchmarks.report import save, table
from benchmarks.review import review
from benchmarks.snapshots import snapshots
from benchmarks.tools import tools

LATEST = Path(__file__).parent / "results" / "latest.json"
CASES: dict[str, Callable[[Bench], Rows]] = {
    "exec": commands.exec_,
    "concurrent": commands.concurrent,
    "stream": commands.stream,
    "start": commands.start,
    "idle": commands.idle,
    # Before the cases that delete thousands of files: without a journal, ext4 is slow to make new ones for a minute after.
    "life": namespaces.life,
    "pool": namespaces.pool,
    "memory": namespaces.idle,
    "fleet": namespaces.fleet,
    "end": namespaces.end,
    "read": files.read,
    "list": files.list_,
    "glob": files.glob,
    "write_files": files.write_files,
    "write": files.write,
    "relays": relays.relays,
    "review": review,
    "docker": docker.docker,
    "snapshots": snapshots,
    "bridge": bridge,
    "tools": tools,
    "egress": egress,
    "gateway": gateway,
    "agents": agents,
    "adapters": adapters,
    "imports": imports,
    "sync": files.sync,
}
_INTERRUPTED = 130


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = _parser()
    options = parser.parse_args()
    if not options.directory.is_dir():
        parser.error(f"{options.directory} is not a directory")
    logging.disable(logging.INFO)  # a server that others are compared with would have every request of all logged
    try:
        with opened(QUICK if options.quick else FULL, options.directory) as bench:
            rows = list(_measured(bench, dict.fromkeys(options.only or CASES)))
            _progress("cleaning up ...")
        _progress("")
    except KeyboardInterrupt:
        _progress("")
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    print(table(rows))
    save(rows, options.json, directory=options.directory, quick=options.quick)
    failed = [row.case for row in rows if row.ok is False]
    return 1 if failed and options.check else 0


def _measured(bench: Bench, names: Iterable[str]) -> Rows:
    for name in names:
        _progress(f"{name} ...")
        with closing(CASES[name](bench)) as rows:
            for row in rows:
                _progress(f"{name}: {row.case}")
                yield row


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="What Paddock's commands, file calls and import cost next to plain ones. Both sides take turns within "
        "one run, so that the ratio means something on a busy machine: look at it and not at the times.",
        epilog="A ratio is the median of those of the single rounds, beside their quartiles. With the audit log on, a "
        "turn's events are on disk before its clock stops. Cases: " + ", ".join(CASES) + ".",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and files: seconds, and less to rely on")
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        choices=list(CASES),
        help="just this case; may be given several times",
    )
    parser.add_argument(
        "--directory",
        metavar="PATH",
        type=Path,
        default=Path(tempfile.gettempdir()),
        help="where to work (%(default)s). Its file system decides how much of a call is ours: in memory the ratios of "
        "writes are at their largest and at their steadiest, and on a disk they depend on what it did before",
    )
    parser.add_argument(
        "--json", metavar="PATH", type=Path, default=LATEST, help="where to put the results as JSON (%(default)s)"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a ratio is above its hold")
    return parser


if __name__ == "__main__":
    sys.exit(main())
