"""The process behind `grep`: reads a pattern, then files, and answers with lines. It imports nothing of Paddock.

Each request is a line of JSON, followed by the contents it announces; each answer is a line of JSON.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

MEMORY = 1 << 30
SECONDS = 40  # a little more than a search may take


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    expression: re.Pattern[str] | None = None
    longest = 0
    for line in requests:
        header = json.loads(line)
        if "pattern" in header:
            longest = header["max_line"]
            expression, answer = compiled(header)
        else:
            contents = [requests.read(size) for size in header["sizes"]]
            answer = {"lines": list(search(expression, contents, header["limit"], longest))}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def compiled(header: dict[str, Any]) -> tuple[re.Pattern[str] | None, dict[str, Any]]:
    """The pattern ready for use, or what is wrong with it."""
    try:
        return re.compile(header["pattern"], re.IGNORECASE if header["ignore_case"] else 0), {}
    except (re.error, OverflowError, RecursionError) as error:
        return None, {"error": str(error)}


def search(
    expression: re.Pattern[str] | None, contents: list[bytes], limit: int, longest: int
) -> Iterator[list[tuple[int, str]]]:
    """The matching lines of each content."""
    for data in contents:
        found: list[tuple[int, str]] = []
        if expression is not None and limit > 0:
            for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
                line = raw.decode("utf-8", "replace").rstrip("\r")
                if expression.search(line):
                    found.append((number, line[:longest]))
                    limit -= 1
                    if limit <= 0:
                        break
        yield found


def confine() -> None:
    """A bound on memory and processor time, in case nobody is left to end this process."""
    import resource

    for kind, value in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, SECONDS)):
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    confine()
    serve(sys.stdin.buffer, sys.stdout.buffer)
