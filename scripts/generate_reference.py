"""Writes docs/reference from the code. With `--check` nothing is written: exit status 1 says what is out of date."""

import ast
import dataclasses
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType, UnionType
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

import paddock
from paddock import registry
from paddock.assistants.schemas import SCHEMAS, published
from paddock.backends.memory import CommandFunction
from paddock.driver import BackendSpec, Capabilities
from paddock.errors import SandboxError
from paddock.testing import Turn
from paddock.types import Limits

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
WIDTH = 100
NOTE = "<!-- Written by scripts/generate_reference.py from the code. Change the code, then run `make generate`. -->"

SECTIONS: dict[str, tuple[str, ...]] = {
    "Sandbox and Process": ("Sandbox", "Process", "Pool"),
    "Many users": ("Manager", "Lease", "ManagedInfo", "WorkspaceInfo", "Removal", "ManagerStats"),
    "Review and snapshots": ("ChangeSet", "Change", "Applied", "Snapshot"),
    "Git": ("Git", "StagedCommit", "StagedFile", "PushResult", "PullResult", "RepoStatus", "Branch"),
    "Tools and ports": ("Tool", "McpServer", "ToolContext", "Grant", "Endpoint"),
    "A Python that keeps its state": ("PythonSession", "PythonResult", "PythonError", "RichOutput"),
    "Models": ("Gateway", "Attachment", "Connector", "Price", "Allowance", "router_config"),
    "Skills": ("Skill", "load_skill", "load_skills", "copy_skills", "skills_prompt"),
    "Consent": ("ApprovalPolicy", "ApprovalRequest", "Approval"),
    "Results": (
        "ExecResult",
        "Usage",
        "Chunk",
        "ProcessInfo",
        "FileInfo",
        "Match",
        "FileEvent",
        "Event",
        "SandboxInfo",
    ),
    "What a sandbox is made with": ("Mount", "Limits", "Network", "Secret"),
    "What holds": ("Isolation", "Guarantee"),
    "Backends": ("Docker", "Namespaces", "Local", "Memory", "Call"),
}
MODULES = {
    "paddock.runners": "Agents",
    "paddock.assistants": "Assistants",
    "paddock.tools": "Tools for models",
    "paddock.testing": "Testing",
}
"""Public modules of their own: all names that they have."""
CONSTRUCTED = ("Assistants", "FakeModel", "Gateway", "Manager", "Pool", "PythonSession", "Runner")
"""Classes that people make objects of; of all others that are no data, calls give them."""
OTHERS = {"__version__", "error_from_dict"}
RETURNED = {
    "paddock.sandbox": ("Creation", "Acquisition", "Watch"),
    "paddock.manager": ("Leasing",),
    "paddock.audit": ("Events",),
}
ALIASES: list[tuple[str, Any]] = [("CommandFunction", CommandFunction), ("Turn", Turn)]
SEAM = {
    "paddock.driver": (
        "BackendSpec",
        "DetachableSpec",
        "Capabilities",
        "Plan",
        "Driver",
        "Spawn",
        "Running",
        "CommandFiles",
    ),
    "paddock.dirs.protocol": ("Dir", "Node", "Reader", "Write", "Stage", "Change"),
    "paddock.registry": ("names", "register", "unregister", "find"),
}


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them; the exit status."""
    if arguments not in ([], ["--check"]):
        print("usage: generate_reference.py [--check]", file=sys.stderr)
        return 2
    pages = {
        "api.md": api_page(),
        "backends.md": backends_page(),
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        **{f"{name}.schema.json": schema_page(name) for name in SCHEMAS},
        "syscalls.md": syscalls_page(),
    }
    if arguments:
        return report(stale(pages))
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    return 0


def stale(pages: dict[str, str]) -> list[str]:
    """What is wrong with the pages on disk, a line each."""
    on_disk = {path.name for path in REFERENCE.glob("*")} if REFERENCE.is_dir() else set()
    wrong = [f"docs/reference/{name} is missing" for name in sorted(set(pages) - on_disk)]
    wrong += [f"docs/reference/{name} is not generated from anything" for name in sorted(on_disk - set(pages))]
    for name in sorted(on_disk & set(pages)):
        if (REFERENCE / name).read_text(encoding="utf-8") != pages[name]:
            wrong.append(f"docs/reference/{name} is out of date")
    return wrong


def report(wrong: list[str]) -> int:
    """Say what is wrong; the exit status."""
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("run `make generate` and look at what changed", file=sys.stderr)
    return 1 if wrong else 0


def schema_page(name: str) -> str:
    """What a file of an assistant may say, for editors and other programs."""
    return json.dumps(published(name), indent=2) + "\n"


# The API


def api_page() -> str:
    """Every public name, with signatures and docstrings."""
    parts = [
        "# API",
        NOTE,
        "Everything here is imported from `paddock`, unless a heading says otherwise. The errors are on "
        "[a page of their own](errors.md). `paddock.sync` has the same names without `await`: see "
        "[sync](../sync.md).",
    ]
    check_sections()
    for title, names in SECTIONS.items():
        parts += [f"## {title}", *(part for name in names for part in described(getattr(paddock, name), name))]
    parts += ["### `paddock.backends.memory.CommandFunction`", code(alias(CommandFunction)), command_function_doc()]
    for module, title in MODULES.items():
        parts += [f"## {title}", f"Imported from `{module}`.", *listed({module: public(module)})]
    parts += ["## Errors", "`error_from_dict` and these classes, described in [errors](errors.md):"]
    parts += ["\n".join(f"- `{cls.__name__}`" for cls in error_classes())]
    parts += described(paddock.error_from_dict, "error_from_dict")
    parts += ["## Version", "### `__version__`", "The version of the package, as text."]
    parts += ["## What calls return", "Nobody makes these; they are what `Sandbox` calls give back."]
    parts += listed(RETURNED)
    parts += [
        "## The seam",
        "For people who write a backend: see [backends](../backends.md). Not exported by `paddock`.",
    ]
    parts += listed(SEAM)
    return page(parts)


def check_sections() -> None:
    """Every public name has a place on the page."""
    placed = OTHERS | {name for names in SECTIONS.values() for name in names}
    placed |= {cls.__name__ for cls in error_classes()}
    homeless = sorted(placed ^ set(paddock.__all__))
    if homeless:
        sys.exit(f"scripts/generate_reference.py: give these a section, or take them out: {', '.join(homeless)}")


def public(module: str) -> tuple[str, ...]:
    """What a module of its own has, and `paddock` has not: some names mean another thing there."""
    found = import_module(module)
    return tuple(name for name in found.__all__ if getattr(found, name) is not getattr(paddock, name, None))


def listed(where: dict[str, tuple[str, ...]]) -> list[str]:
    """Names by the module that they are imported from."""
    return [
        part
        for module, names in where.items()
        for name in names
        for part in described(getattr(import_module(module), name), f"{module}.{name}")
    ]


def described(thing: Any, name: str) -> list[str]:
    """One class, function, or name for several types."""
    if isinstance(thing, UnionType):
        return [f"### `{name}`", code(alias(thing)), meant(name)]
    if isinstance(thing, dict):
        return [f"### `{name}`", meant(name)]
    if not inspect.isclass(thing):
        return [f"### `{name}`", code(signature(thing, thing.__name__)), doc(thing)]
    parts = [f"### `{name}`"]
    if dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        parts.append(code(constructor(thing)))
    elif getattr(thing, "_is_protocol", False) and vars(thing).get("__annotations__"):
        parts.append(code("\n".join(f"{name}: {annotation(kind)}" for name, kind in thing.__annotations__.items())))
    elif thing.__name__ in CONSTRUCTED:
        parts.append(code(signature(thing, thing.__name__).removesuffix(" -> None")))
    parts.append(doc(thing))
    parts += field_list(thing)
    for member, value in sorted_members(thing):
        parts += [f"#### `{thing.__name__}.{member}`", *member_parts(thing, member, value)]
    return [part for part in parts if part]


def sorted_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source."""
    for name, value in vars(cls).items():
        if not name.startswith("_") and isinstance(value, (FunctionType, classmethod, property)):
            yield name, value


def member_parts(cls: type, name: str, value: Any) -> list[str]:
    """A method by its signature, a property by its type."""
    if isinstance(value, property):
        returned = annotation(inspect.signature(value.fget).return_annotation) if value.fget else ""
        return [code(f"{name}: {returned}"), doc(value)]
    function = value.__func__ if isinstance(value, classmethod) else value
    text = signature(function, f"{cls.__name__}.{name}" if isinstance(value, classmethod) else name)
    return [code(text), doc(function)]


def constructor(cls: Any) -> str:
    """How a dataclass or a named tuple is made."""
    if dataclasses.is_dataclass(cls):
        fields = [field for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")]
        texts = [f"{field.name}: {annotation(field.type)}{field_default(field)}" for field in fields]
    else:
        defaults = {name: f" = {literal(value)}" for name, value in cls._field_defaults.items()}
        texts = [f"{name}: {annotation(cls.__annotations__[name])}{defaults.get(name, '')}" for name in cls._fields]
    return call(cls.__name__, texts, "")


def field_default(field: "dataclasses.Field[Any]") -> str:
    """The default of a dataclass field, as it would be written."""
    if field.default is not dataclasses.MISSING:
        return f" = {literal(field.default)}"
    return f" = {field.default_factory()!r}" if field.default_factory is not dataclasses.MISSING else ""


def field_list(cls: type) -> list[str]:
    """The fields of a class that have a docstring of their own."""
    notes = field_docs(cls)
    return ["\n".join(f"- `{name}`: {text}" for name, text in notes.items())] if notes else []


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The strings that stand below the fields of a class in the source."""
    node = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    return string_docs(node.body) if isinstance(node, ast.ClassDef) else {}


def meant(name: str) -> str:
    """The string that stands below a name in the source of the module that it comes from."""
    module, _, last = name.rpartition(".")
    where = {source for source in sys.modules if source.startswith(f"{module}.")}
    docs = (string_docs(ast.parse(inspect.getsource(sys.modules[source])).body) for source in sorted(where))
    return next((found[last] for found in docs if last in found), "")


def command_function_doc() -> str:
    """The string that stands below the alias in the source."""
    source = inspect.getsource(import_module("paddock.backends.memory.commands"))
    return string_docs(ast.parse(source).body)["CommandFunction"]


def string_docs(body: list[ast.stmt]) -> dict[str, str]:
    """The strings that stand below assignments: Python does not keep them."""
    found = {}
    for statement, after in pairwise(body):
        if not isinstance(statement, (ast.AnnAssign, ast.Assign)) or not isinstance(after, ast.Expr):
            continue
        target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
        if isinstance(target, ast.Name) and isinstance(after.value, ast.Constant):
            found[target.id] = " ".join(str(after.value.value).split())
    return found


def signature(function: Any, name: str) -> str:
    """A function as one would declare it, without `self` and module names; split when it is long."""
    found = inspect.signature(function)
    texts = []
    starred = False
    for parameter in list(found.parameters.values()):
        if parameter.name in ("self", "cls"):
            continue
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            texts.append("*")
        texts.append(declared(parameter))
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    returned = annotation(found.return_annotation)
    return call(f"{prefix}{name}", texts, f" -> {returned}" if returned else "")


def declared(parameter: inspect.Parameter) -> str:
    """One parameter."""
    star = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
    text = f"{star}{parameter.name}: {annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text
    octal = parameter.name == "mode" and type(parameter.default) is int
    return f"{text} = {oct(parameter.default) if octal else literal(parameter.default)}"


def call(name: str, texts: list[str], returned: str) -> str:
    """A declaration on one line, or on many if it is too long for one."""
    short = f"{name}({', '.join(texts)}){returned}"
    if len(short) <= WIDTH:
        return short
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){returned}"])


def annotation(value: Any) -> str:
    """A type as one would write it after importing its names."""
    known = next((name for name, meaning in ALIASES if value == meaning), None)
    return known or alias(value)


def alias(value: Any) -> str:
    """A type written out, the same on every version of Python."""
    if value is inspect.Signature.empty:
        return ""
    if value in (None, type(None), ...):
        return "..." if value is ... else "None"
    if isinstance(value, (str, ForwardRef)):
        return value if isinstance(value, str) else value.__forward_arg__
    if isinstance(value, list):
        return f"[{', '.join(map(annotation, value))}]"
    origin, arguments = get_origin(value), get_args(value)
    if origin in (Union, UnionType):
        return " | ".join(map(annotation, arguments))
    if origin is None:
        return str(value.__name__)
    inner = map(literal if origin is Literal else annotation, arguments)
    return f"{origin.__name__}[{', '.join(inner)}]"


def literal(value: Any) -> str:
    """A default value as one would write it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if (
        dataclasses.is_dataclass(value)
        and not isinstance(value, type)
        and all(map(has_default, dataclasses.fields(value)))
    ):
        return f"{type(value).__name__}()" if value == type(value)() else repr(value)
    return "..." if inspect.isfunction(value) or dataclasses.is_dataclass(value) else repr(value)


def has_default(field: "dataclasses.Field[Any]") -> bool:
    """Whether an object can be made without it."""
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def doc(thing: Any) -> str:
    """A docstring, its own and not an inherited one."""
    own = thing.__dict__.get("__doc__") if inspect.isclass(thing) else thing.__doc__
    return inspect.cleandoc(own) if own else ""


def code(text: str) -> str:
    return f"```text\n{text}\n```"


# The errors


def error_classes() -> list[type[SandboxError]]:
    """The whole tree, in the order it is written."""

    def below(cls: type[SandboxError]) -> Iterator[type[SandboxError]]:
        yield cls
        for child in cls.__subclasses__():
            if child.__module__ == "paddock.errors":
                yield from below(child)

    return list(below(SandboxError))


def errors_page() -> str:
    """The table of codes, and each class in its own words."""
    rows = [("Code", "Class", "Also a", "Its hint, unless a better one is given")]
    rows += [
        (f"`{cls.code}`", f"[`{cls.__name__}`](#{cls.__name__.lower()})", built_in(cls), cls.default_hint)
        for cls in error_classes()
    ]
    parts = ["# Errors", NOTE, "How to use them is on [a page of its own](../errors.md).", table(rows)]
    for cls in error_classes():
        parts += [f"## `{cls.__name__}`", doc(cls), facts(cls)]
    parts += ["## Methods", "Every error has these."]
    for name in ("to_llm", "to_dict"):
        parts += [f"### `{name}`", *member_parts(SandboxError, name, vars(SandboxError)[name])]
    return page(parts)


def built_in(cls: type[SandboxError]) -> str:
    """The built-in error that it also is."""
    bases = [base.__name__ for base in cls.__mro__ if base.__module__ == "builtins"]
    return f"`{bases[0]}`" if bases[0] != "Exception" else ""


def facts(cls: type[SandboxError]) -> str:
    """Code, place in the tree, and the fields that only it has."""
    lines = [f"- code: `{cls.code}`"]
    if cls is not SandboxError:
        parents = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
        lines.append(f"- is a: {parents}")
    if cls.extra_fields:
        lines.append(f"- has: {', '.join(f'`.{name}`' for name in cls.extra_fields)}")
    return "\n".join(lines)


# The backends


def backends_page() -> str:
    """What each backend can do, from its own words."""
    built = {name: registry.load(name)() for name in registry.names(built=True)}
    later = sorted(set(registry.names()) - set(built))
    parts = [
        "# Backends",
        NOTE,
        "Choosing one, and writing one: see [backends](../backends.md).",
        "## Capabilities",
        capability_table(built),
        "## Limits",
        "The fields of `Limits` that a backend can hold. One that was asked for and is not held is an "
        "`UnsupportedError`, unless `best_effort=True`.",
        limit_table(built),
        "## Names still to come",
        "These answer `UnavailableError` in this version: " + ", ".join(f"`{name}`" for name in later) + ".",
        "`auto` means the strongest that needs no set-up: `namespaces` on Linux, else `docker`; with `image=`, `docker`.",
        "## What the capabilities mean",
        "\n".join(f"- `{name}`: {text}" for name, text in field_docs(Capabilities).items()),
    ]
    return page(parts)


def capability_table(built: dict[str, BackendSpec]) -> str:
    flags = [field.name for field in dataclasses.fields(Capabilities) if field.type in (bool, "bool")]
    rows = [("Capability", *(f"`{name}`" for name in built))]
    rows += [
        (f"`{flag}`", *("yes" if getattr(spec.capabilities, flag) else "no" for spec in built.values()))
        for flag in flags
    ]
    return table(rows)


def limit_table(built: dict[str, BackendSpec]) -> str:
    names = [field.name for field in dataclasses.fields(Limits) if field.name != "best_effort"]
    rows = [("Limit", *(f"`{name}`" for name in built))]
    rows += [
        (f"`{name}`", *("held" if name in spec.capabilities.limits else "no" for spec in built.values()))
        for name in names
    ]
    return table(rows)


# The command line


def cli_page() -> str:
    """The help of the program and of each command, the same on every terminal."""
    os.environ.update(COLUMNS=str(WIDTH), TERMINAL_WIDTH=str(WIDTH), NO_COLOR="1", TERM="dumb", LC_ALL="C.UTF-8")
    program = import_module("typer.main").get_command(import_module("paddock.cli.app").program())
    settings = program.context_settings | {"terminal_width": WIDTH, "max_content_width": WIDTH}
    whole = program.context_class(program, info_name="paddock", **settings)
    parts = [
        "# Command line",
        NOTE,
        "Needs the extra `paddock[cli]`. What each command prints when it is asked for help:",
        "## `paddock`",
        plain_help(program, whole),
    ]
    for name, command in sorted(program.commands.items()):
        parts += command_parts(name, command, whole, f"paddock {name}")
    return page(parts)


def command_parts(name: str, command: Any, parent: Any, words: str) -> list[str]:
    """One command, and those below it."""
    context = command.context_class(command, info_name=name, parent=parent)
    parts = [f"## `{words}`", plain_help(command, context)]
    for below, one in sorted(getattr(command, "commands", {}).items()):
        parts += command_parts(below, one, context, f"{words} {below}")
    return parts


def plain_help(command: Any, context: Any) -> str:
    lines = str(command.get_help(context)).strip().splitlines()
    return code("\n".join(line.rstrip() for line in lines))


# Markdown


def table(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


# The filters


def syscalls_page() -> str:
    """What the filters say to each system call, and why."""
    sys.path.insert(0, str(ROOT / "supervisor"))
    policies = import_module("syscalls")
    parts = [
        "# System calls",
        NOTE,
        "What the filters answer. Who gets them, and what that means for programs: see [system calls](../syscalls.md).",
        "## For every process",
        f"A call that is not in this table is answered with `{policies.BASE.otherwise.word}`. A call by the conventions of "
        f"another machine (i386, x32) ends the process with `{policies.KILL.word}`.",
        policy_table(policies.BASE),
        "## For commands, on top of that",
        "A call that is not in this table is left to the first one.",
        policy_table(policies.COMMANDS),
    ]
    return page(parts)


def policy_table(policy: Any) -> str:
    """A row for each group."""
    rows = ["| What | Answer | Why | Calls |", "| --- | --- | --- | --- |"]
    for group in policy.groups:
        answers = dict.fromkeys(answer for decision in group.rules.values() for answer in possible_answers(decision))
        names = " ".join(f"`{name}`" for name in group.decisions())
        rows.append(f"| {group.title} | {' or '.join(answers)} | {group.reason} | {names} |")
    return "\n".join(rows)


def possible_answers(decision: Any) -> Iterator[str]:
    """All that can come of it; that it is allowed comes first."""
    if hasattr(decision, "word"):
        yield decision.word
    else:
        yield "allowed"
        yield from (refusal.answer.word for refusal in decision)


def page(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
