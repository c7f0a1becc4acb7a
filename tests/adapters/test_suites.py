"""The suites of others are there as a whole: one that shrinks, or is not collected, shows nothing."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("memory", "namespaces", "docker")
SIZES = {"test_deepagents.py::TestBackend": 85, "test_fsspec.py::Test": 137, "test_inspect_ai.py": 44}
"""How many each has on a backend. Of langchain-tests' 86 one looks at the class alone, and needs none."""
OURS = ("test_a_link_to_what_never_ends", "test_its_own_tools")


def test_they_are_whole() -> None:
    files = sorted({f"tests/adapters/{suite.partition('::')[0]}" for suite in SIZES})
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    run = subprocess.run(words, cwd=ROOT, check=False, capture_output=True, text=True)
    found = Counter(
        (suite, backend)
        for line in run.stdout.splitlines()
        for suite in SIZES
        for backend in BACKENDS
        if f"/{suite}" in line
        and re.search(rf"\[{backend}\b|\b{backend}\]", line)
        and not any(ours in line for ours in OURS)
    )
    wanted = {(suite, backend): size for suite, size in SIZES.items() for backend in BACKENDS}
    del wanted["test_inspect_ai.py", "memory"]  # which has no commands for it
    assert found == wanted, run.stdout[-2000:]
    assert "TestBackend::test_no_overrides_DO_NOT_OVERRIDE" in run.stdout


def test_inspect_finds_its_sandbox_by_itself() -> None:
    """By the entry point: nothing of Paddock is imported by whoever names it."""
    program = (
        "import sys\n"
        "from inspect_ai.util._sandbox.registry import registry_find_sandboxenv\n"
        "assert not any(name.startswith('paddock') for name in sys.modules)\n"
        "print(registry_find_sandboxenv('paddock').__module__)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True)
    assert run.stdout.strip() == "paddock.adapters.inspect_ai", run.stderr
