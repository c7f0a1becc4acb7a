"""The documentation cannot rot: its examples run, its links lead somewhere, and nothing public is left out.

A `python` block is a program of its own. `python continues` goes on where the block before it stopped, `text output` is
what the program before it prints, and `python no-run` is the rare one that cannot run here.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest
from typer.main import get_command

import paddock
import paddock.testing
from paddock.cli.app import program
from paddock.driver import BackendSpec
from paddock.errors import BY_CODE
from paddock.testing import SandboxContract

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
REFERENCE = ROOT / "docs" / "reference"
WRITTEN = [page for page in PAGES if page.parent != REFERENCE]
MARKS = {
    "python": {"continues", "no-run"},
    "text": {"output"},
    "sh": set[str](),
    "toml": set[str](),
    "yaml": set[str](),
    "json": set[str](),
}
TOOLS = {"make", "paddock", "git", "cd", "docker"}
BEHAVIOURS = (
    "G1-G24 G27-G35 T1-T45 T48-T51 Y1-Y33 Y35-Y65 Y69-Y88 Y90-Y93 Y95-Y104 "
    "L1-L17"  # what is held so far
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    marks: tuple[str, ...]
    text: str

    def compiled(self) -> CodeType:
        """The code, with the lines of the page in its tracebacks."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile("\n" * self.line + self.text, str(self.page), "exec", flags=flags, dont_inherit=True)
        return code


@dataclass
class Program:
    """Blocks that run one after the other in one module, and what they print."""

    blocks: list[Block]
    output: str | None = field(default=None)

    def __str__(self) -> str:
        first = self.blocks[0]
        return f"{first.page.relative_to(ROOT)}:{first.line}"


def blocks(page: Path) -> Iterator[Block]:
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        if not line.startswith("```"):
            continue
        language, *marks = line.removeprefix("```").split() or [""]
        inner = []
        for _, text in lines:
            if text == "```":
                break
            inner.append(text)
        else:
            raise AssertionError(f"{page.name}:{number}: the block does not end")
        yield Block(page, number, language, tuple(marks), "\n".join(inner) + "\n")


def programs(page: Path) -> list[Program]:
    found: list[Program] = []
    for block in blocks(page):
        if block.language == "text" and "output" in block.marks:
            found[-1].output = block.text
        elif block.language == "python" and "continues" in block.marks:
            found[-1].blocks.append(block)
        elif block.language == "python" and "no-run" not in block.marks:
            found.append(Program([block]))
    return found


PROGRAMS = [program for page in WRITTEN for program in programs(page)]


def run(program: Program, module: ModuleType) -> None:
    codes = [block.compiled() for block in program.blocks]
    if not any(code.co_flags & inspect.CO_COROUTINE for code in codes):
        for code in codes:
            exec(code, vars(module))
        return

    async def all_of_it() -> None:
        for code in codes:
            waiting = eval(code, vars(module))
            if waiting is not None:
                await waiting

    asyncio.run(all_of_it())


@pytest.fixture
def environment() -> Iterator[None]:
    """What an example sets in the environment ends with it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.timeout(600)  # other frameworks are large, and take long to load where others use the machine
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
@pytest.mark.usefixtures("environment")
def test_example(
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if program.blocks[0].page.name == "docker.md":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_engine").url)
        monkeypatch.setenv("PADDOCK_IMAGE", "python")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    run(program, module)
    if program.output is not None:
        assert capsys.readouterr().out == program.output


def test_there_are_examples() -> None:
    assert {program.blocks[0].page for program in PROGRAMS} >= {
        ROOT / "README.md",
        *(
            ROOT / "docs" / f"{noun}.md"
            for noun in (
                "sandbox",
                "files",
                "paths",
                "views",
                "commands",
                "events",
                "errors",
                "backends",
                "sync",
                "detached",
                "pool",
                "manager",
                "testing",
                "configuration",
            )
        ),
    }


def test_marks_are_known_and_no_run_is_rare() -> None:
    everything = [block for page in PAGES for block in blocks(page)]
    unknown = [
        f"{block.page.name}:{block.line}"
        for block in everything
        if block.language not in MARKS or not set(block.marks) <= MARKS[block.language]
    ]
    assert unknown == []
    assert sum("no-run" in block.marks for block in everything) <= 3  # one runs in tests/adapters, in its own process


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_lines_name_what_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"^## `paddock ([\w-]+)`", (REFERENCE / "cli.md").read_text(), re.MULTILINE))
    for block in blocks(page):
        if block.language != "sh":
            continue
        for line in block.text.splitlines():
            tool, *words = line.partition("#")[0].split()
            assert tool in TOOLS, line
            named = [word for word in words if not word.startswith("-") and "=" not in word]
            if tool == "make":
                assert named, line
                assert set(named) <= targets, line
            if tool == "paddock":
                assert set(named[:1]) <= commands, line


def command_lines() -> list[str]:
    """Every command line of `paddock` that is shown: in blocks, in sentences, and in the help, which the reference has."""
    found = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"`(paddock [a-z][^`\n]*)`", text))
        shown = text if page.parent == REFERENCE else "".join(b.text for b in blocks(page) if b.language == "sh")
        found |= set(re.findall(r"^ *(paddock [a-z].*)$", shown, re.MULTILINE))
    return sorted(found)


@pytest.mark.parametrize("line", command_lines())
def test_command_lines_are_understood(line: str) -> None:
    """And what they name of the current directory is there inside."""
    words = [word for word in shlex.split(re.sub(r"\$\(.*?\)", "X", line), comments=True) if word != "…"][1:]
    command: Any = get_command(program())
    context = command.make_context("paddock", [], resilient_parsing=True)
    while hasattr(command, "commands") and words:
        command = command.commands[words.pop(0)]
        context = command.make_context(command.name, list(words), parent=context, resilient_parsing=not words)
    if command.name in ("run", "shell") and "command" in context.params:
        here = [word for word in context.params["command"] or () if word.startswith("./") or word in ("make", "npm")]
        assert not here or context.params["workspace"] or context.params["review"]


def test_make_targets_in_the_text_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in WRITTEN:
        assert set(re.findall(r"`make ([a-z]+)`", page.read_text())) <= targets, page


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page, named as its readers' browsers name it."""
    counts: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{slug}-{counts[slug]}" if counts[slug] else slug)
        counts[slug] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(?<!\[)`[^`\n]*`(?!\])", "", prose(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        assert not path.startswith(("/", "http:", "https:")), link
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)\)", index.read_text())}
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs") and page != index} <= linked


def public_members(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_every_public_name_is_explained() -> None:
    text = "\n".join(page.read_text() for page in WRITTEN if page.name != "behaviours.md")
    names = set(paddock.__all__) - {"__version__"}
    names |= public_members(paddock.Sandbox) | public_members(paddock.Process)
    names |= set(paddock.testing.__all__) | public_members(paddock.testing.FakeModel)
    assert sorted(name for name in names if not re.search(rf"[`.(]{name}\b", text)) == []


def test_every_error_is_explained() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    for code, cls in BY_CODE.items():
        assert f"`{code}`" in text
        assert f"`{cls.__name__}`" in text


def test_every_capability_is_explained() -> None:
    text = (ROOT / "docs" / "backends.md").read_text()
    can = paddock.Memory.capabilities
    assert [name for name in can.to_dict() if f"`{name}`" not in text] == []


def test_the_layers_are_those_that_are_checked() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rank = {module.strip(): n for n, layer in enumerate(contract["layers"]) for module in layer.split("|")}
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("## The layers")[2].partition("\n## ")[0]
    rows = [re.findall(r"`(paddock\.\w+)`", cell) for cell in re.findall(r"^\| (.*?) \|", text, re.MULTILINE)]
    named = [module for row in rows for module in row]
    assert sorted(named) == sorted(rank)
    assert [rank[module] for module in named] == sorted(rank.values())


# The table of behaviours


def expanded(ranges: str) -> list[str]:
    found = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        letter, number = first[0], int(first[1:])
        found += [f"{letter}{n}" for n in range(number, (int(last[1:]) if last else number) + 1)]
    return found


def behaviour_rows() -> dict[str, str]:
    text = (ROOT / "docs" / "behaviours.md").read_text()
    rows = re.findall(r"^\| ([A-Z]\d+) \|(.*)\|$", text, re.MULTILINE)
    assert len(rows) == len(dict(rows))
    return dict(rows)


def test_every_behaviour_has_a_row() -> None:
    assert list(behaviour_rows()) == expanded(BEHAVIOURS)


def defined(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def known_tests(part: str) -> set[str]:
    """The tests of a part of the contract, or of a file below `tests`."""
    contract = ROOT / "src" / "paddock" / "testing" / "contract" / f"{part}.py"
    paths = [contract] if contract.exists() else list((ROOT / "tests").glob(f"**/{part}.py"))
    return {name for path in paths for name in defined(path)}


@pytest.mark.parametrize("number", expanded(BEHAVIOURS))
def test_what_shows_a_behaviour_exists(number: str) -> None:
    row = behaviour_rows()[number]
    for part, test in re.findall(r"`(\w+)::(\w+)`", row):
        assert test in known_tests(part), f"{part}::{test}"
    for file in re.findall(r"`(tests/[\w./]+)`", row):
        assert (ROOT / file).exists(), file
    assert re.search(r"`\w+::\w+`|`tests/", row), "no test is named"


# The backend that the docs show how to write


class TestTheBackendOfTheDocs(SandboxContract):
    """It keeps the whole contract, as the page says."""

    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> str | BackendSpec:
        module = ModuleType("example")
        monkeypatch.setitem(sys.modules, "example", module)
        first = next(p for p in programs(ROOT / "docs" / "backends.md") if "class Scratch:" in p.blocks[0].text)
        exec(first.blocks[0].compiled(), vars(module))
        spec: BackendSpec = module.Scratch()
        return spec
