"""Write `src/paddock/sync/generated.py`: the blocking mirror of the async classes, read from their source.

    python scripts/generate_sync.py            write it
    python scripts/generate_sync.py --check    exit with 1 if what is there differs

Each public method becomes one line over the portal (`paddock.sync.portal`). What the rules below do not cover is an error
here and not a wrong mirror there.
"""

import argparse
import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
TARGET = SOURCE / "paddock" / "sync" / "generated.py"
CLASSES = (
    ("paddock.audit.bus", "Events", "paddock.audit.Events"),
    ("paddock.sandbox.watch", "Watch", "paddock.sandbox.Watch"),
    ("paddock.sandbox.process", "Process", "paddock.Process"),
    ("paddock.review.changeset", "ChangeSet", "paddock.ChangeSet"),
    ("paddock.git.gate", "Git", "paddock.Git"),
    ("paddock.types.ports", "Endpoint", "paddock.Endpoint"),
    ("paddock.sandbox.sandbox", "Sandbox", "paddock.Sandbox"),
    ("paddock.sandbox.pool", "Pool", "paddock.Pool"),
    ("paddock.gateway.gateway", "Attachment", "paddock.Attachment"),
    ("paddock.gateway.gateway", "Gateway", "paddock.Gateway"),
    ("paddock.manager.lease", "Lease", "paddock.Lease"),
    ("paddock.manager.manager", "Manager", "paddock.Manager"),
    ("paddock.tools.python.session", "PythonSession", "paddock.PythonSession"),
)
NAMES = {name for _, name, _ in CLASSES}
CONSTRUCTED = {"Gateway", "Pool", "Manager", "PythonSession"}  # by users; of the others, calls give an instance

INNER = {"end"}
"""Fields that are between Paddock's own parts."""

ASYNC_ONLY = {"serve", "direct"}
"""What is given a handler, which is async in any case; and what is between Paddock's own parts."""

PASSED_ON = {"__len__": "len(self._async)", "__iter__": "iter(self._async)", "__getitem__": "self._async[index]"}
"""What makes a class a sequence."""

RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__repr__": "__repr__",
    "aclose": "close",
}
OTHERS = {"Stdin": ("Stdin | Iterable[bytes]", "_whole"), "Prepare": ("Callable[[Sandbox], object]", "_in_thread")}
"""Types of parameters that are others here, with what turns them into the async ones."""
WORDS = (
    ("`await` it, or use `async with`", "close it, or use `with`"),
    ("async with", "with"),
    ("first awaited", "first asked"),
)

HEADER = '''"""The async classes as blocking ones, name for name. Written by scripts/generate_sync.py: change those."""

# ruff: noqa: B008 - the calls in defaults make frozen values

from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Self, overload
{imports}
if TYPE_CHECKING:
    from paddock.sync.portal import Portal


def _portal() -> "Portal":
    from paddock.sync.portal import portal  # loads asyncio, and therefore only now

    return portal()


def _whole(stdin: Stdin | Iterable[bytes] | None) -> Stdin | None:
    return stdin if stdin is None or isinstance(stdin, (str, bytes, AsyncIterable)) else b"".join(stdin)


def _in_thread(prepare: "Callable[[Sandbox], object] | None") -> Prepare | None:
    async def prepared(sandbox: AsyncSandbox) -> None:
        import asyncio

        if prepare is not None:
            await asyncio.to_thread(prepare, Sandbox(sandbox))

    return prepared if callable(prepare) else prepare  # which is refused, unless it is None
'''

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Uncovered(Exception):  # noqa: N818 - told to whoever changes the async classes
    """The async classes hold something that the rules here do not cover."""


@dataclass(frozen=True)
class Module:
    """The source of one module."""

    name: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse((SOURCE / self.name.replace(".", "/")).with_suffix(".py").read_text())

    @cached_property
    def imports(self) -> dict[str, str]:
        """Each name of the module, with the statement that imports it elsewhere."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                found.update({a.asname or a.name: f"from {node.module} import {ast.unparse(a)}" for a in node.names})
            elif isinstance(node, ast.Import):
                found.update({a.asname or a.name: f"import {ast.unparse(a)}" for a in node.names})
        for node in self.tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update({t.id: f"from {self.name} import {t.id}" for t in targets if isinstance(t, ast.Name)})
            elif isinstance(node, ast.ClassDef):
                found[node.name] = f"from {self.name} import {node.name}"
        return found

    def find(self, name: str) -> ast.ClassDef | None:
        return next((n for n in self.tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)

    def awaited(self, annotation: ast.expr | None) -> ast.expr | None:
        """What awaiting a class of this module gives, if it can be awaited: `__await__` says so."""
        cls = self.find(annotation.id) if isinstance(annotation, ast.Name) else None
        for node in functions(cls) if cls else ():
            if node.name == "__await__" and isinstance(node.returns, ast.Subscript):
                types = node.returns.slice
                return plain(types.elts[2]) if isinstance(types, ast.Tuple) else None
        return None


class Unquoted(ast.NodeTransformer):
    """Annotations without quotes: `Mirror.returns` puts back the ones that are needed."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(node.value, mode="eval").body if isinstance(node.value, str) else node


def plain(annotation: ast.expr) -> ast.expr:
    result: ast.expr = Unquoted().visit(annotation)
    return result


def functions(cls: ast.ClassDef) -> Iterator[Function]:
    return (node for node in cls.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def names(node: ast.AST | None) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()


class Mirror:
    """The blocking twin of one class."""

    def __init__(self, module: str, name: str, public: str) -> None:
        self.module = Module(module)
        self.name = name
        self.public = public
        cls = self.module.find(name)
        if cls is None:
            raise Uncovered(f"{module} has no class {name}.")
        self.cls = cls
        self.methods = {node.name: node for node in functions(cls)}
        self.stream = "__anext__" in self.methods
        self.used: set[str] = set()

    def text(self) -> str:
        """The whole class."""
        bases = [ast.unparse(base).replace("AsyncIterator", "Iterator") for base in self.cls.bases]
        self.used.update(*map(names, self.cls.bases))
        head = f"class {self.name}" + (f"({', '.join(bases)})" if bases else "") + ":"
        parts = [self.docstring(self.cls), *self.constructor(), ""]
        for field in self.fields():
            parts.extend([*self.field(field), ""])
        for method in functions(self.cls):
            if method.name in PASSED_ON:
                parts.extend([*self.passed_on(method), ""])
            elif self.wanted(method):
                parts.extend([*self.method(method), ""])
        return "\n    ".join([head, *parts])

    def fields(self) -> Iterator[ast.AnnAssign]:
        """Those of a dataclass."""
        return (
            node for node in self.cls.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) not in INNER
        )

    def field(self, node: ast.AnnAssign) -> list[str]:
        """A field, which is read through."""
        self.used |= names(node.annotation)
        name = ast.unparse(node.target)
        return [
            "@property",
            f"def {name}(self) -> {ast.unparse(node.annotation)}:",
            f"    return self._async.{name}",
        ]

    def constructor(self) -> list[str]:
        """What wraps an async instance, or makes one."""
        if self.name not in CONSTRUCTED:
            return [f"def __init__(self, wrapped: Async{self.name}) -> None:", "    self._async = wrapped"]
        method = self.methods["__init__"]
        head = f"def __init__({self.parameters(method)}) -> None:"
        return [head, f"    self._async = Async{self.name}({', '.join(self.arguments(method))})"]

    def imports(self) -> set[str]:
        """The statements that the signatures need."""
        needed = self.used - NAMES - set(dir(builtins)) - {"AsyncIterator", "Iterator", "Self", "Any", "overload"}
        unknown = needed - set(self.module.imports)
        if unknown:
            raise Uncovered(f"{self.module.name} does not import {', '.join(sorted(unknown))}.")
        own = f"from {self.module.name} import {self.name} as Async{self.name}"
        return {self.module.imports[name] for name in needed} | {own}

    def wanted(self, method: Function) -> bool:
        """Public, and on a stream async: its other side belongs to whoever fills it."""
        public = not method.name.startswith("_") or method.name in RENAMED
        mirrored = public and method.name not in ASYNC_ONLY
        return mirrored and not (self.stream and isinstance(method, ast.FunctionDef))

    def method(self, method: Function) -> list[str]:
        """One method: decorators, signature, docstring, the call."""
        decorators = {ast.unparse(node) for node in method.decorator_list}
        if decorators - {"property", "classmethod"}:
            raise Uncovered(f"{self.name}.{method.name} has decorators that are not covered.")
        lines = [f"@{name}" for name in decorators]
        lines.append(
            f"def {RENAMED.get(method.name, method.name)}({self.parameters(method)}) -> {self.returns(method)}:"
        )
        if ast.get_docstring(method):
            lines.append(f"    {self.docstring(method)}")
        return lines + [f"    {line}" for line in self.body(method, decorators)]

    def passed_on(self, method: Function) -> list[str]:
        """A method of a sequence, with its overloads."""
        decorators = [ast.unparse(node) for node in method.decorator_list]
        head = f"def {method.name}({self.parameters(method)}) -> {self.returns(method)}:"
        self.used.update(decorators)
        return [
            *(f"@{name}" for name in decorators),
            head,
            f"    {'...' if decorators else f'return {PASSED_ON[method.name]}'}",
        ]

    def parameters(self, method: Function) -> str:
        arguments = method.args
        for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
            if arg is not None and arg.annotation is not None:
                arg.annotation = plain(arg.annotation)
                self.used |= names(arg.annotation)
                if names(arg.annotation) & NAMES and not is_mirrored(arg.annotation):
                    raise Uncovered(f"{self.name}.{method.name} takes a {ast.unparse(arg.annotation)}.")
                for word in names(arg.annotation) & set(OTHERS):
                    other = ast.unparse(arg.annotation).replace(word, OTHERS[word][0])
                    arg.annotation = ast.parse(other, mode="eval").body
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            self.used |= names(default)
        return ast.unparse(arguments)

    def result(self, method: Function) -> ast.expr:
        """What the async method gives in the end."""
        if method.returns is None:
            raise Uncovered(f"{self.name}.{method.name} has no return type.")
        returns = plain(method.returns)
        return self.module.awaited(returns) or returns

    def returns(self, method: Function) -> str:
        if method.name == "__aenter__":
            return "Self"
        result = self.result(method)
        self.used |= names(result)
        text = ast.unparse(result).replace("AsyncIterator", "Iterator")
        return f'"{text}"' if text == self.name else text

    def body(self, method: Function, decorators: set[str]) -> list[str]:
        if method.name == "__repr__":
            return ["return repr(self._async)"]
        result = self.result(method)
        if method.name == "__aenter__":
            return [self.call(method, decorators), "return self"]
        call = self.call(method, decorators)
        if isinstance(result, ast.Name) and result.id in NAMES:
            return [f"return {result.id}({call})"]
        if names(result) & NAMES:
            raise Uncovered(f"{self.name}.{method.name} gives {ast.unparse(result)}, which cannot be wrapped yet.")
        return [call if ast.unparse(result) == "None" else f"return {call}"]

    def call(self, method: Function, decorators: set[str]) -> str:
        target = f"{f'Async{self.name}' if 'classmethod' in decorators else 'self._async'}.{method.name}"
        if "property" in decorators:
            return target
        arguments = ", ".join(self.arguments(method))
        function = f"partial({target}, {arguments})" if arguments else target
        if way := self.way(method):
            return f'_portal().{way}({function}, "{self.instead(method)}")'
        return f"_portal().call({function})"

    def way(self, method: Function) -> str | None:
        """How the portal makes the call; None for what is not async."""
        if method.name in ("__anext__", "__aiter__"):
            return "advance" if method.name == "__anext__" else "iterate"
        if isinstance(method, ast.AsyncFunctionDef):
            return "run"
        return "run" if method.returns and self.module.awaited(plain(method.returns)) else None

    def arguments(self, method: Function) -> Iterator[str]:
        """The parameters, passed on."""
        for arg in [*method.args.posonlyargs, *method.args.args][1:]:
            yield given(arg)
        if method.args.vararg:
            yield f"*{method.args.vararg.arg}"
        for arg in method.args.kwonlyargs:
            yield f"{arg.arg}={given(arg)}"
        if method.args.kwarg:
            yield f"**{method.args.kwarg.arg}"

    def instead(self, method: Function) -> str:
        """The async way, for those who call from a running loop."""
        if method.name in ("__aenter__", "__aexit__"):
            return f"async with {self.public}"
        if method.name in ("__aiter__", "__anext__"):
            return f"async for ... in {self.public}"
        return f"await {self.public}.{method.name}(...)"

    def docstring(self, node: ast.ClassDef | Function) -> str:
        """The first paragraph, in words that fit here."""
        text = (ast.get_docstring(node) or "").partition("\n\n")[0]
        for old, new in WORDS:
            text = text.replace(old, new)
        if "async" in text or "await" in text:
            raise Uncovered(f"The docstring of {self.name} or {node.name} needs words of its own: {text!r}")
        lines = text.splitlines()
        return '"""' + "\n    ".join(lines) + '"""'


def is_mirrored(annotation: ast.expr | None) -> bool:
    """Whether it is a class that has a blocking twin, and nothing else."""
    return isinstance(annotation, ast.Name) and annotation.id in NAMES


def given(arg: ast.arg) -> str:
    if is_mirrored(arg.annotation):
        return f"{arg.arg}._async"
    for other, turned in OTHERS.values():
        if arg.annotation and ast.unparse(arg.annotation).startswith(other):
            return f"{turned}({arg.arg})"
    return arg.arg


def generate() -> str:
    """The text of the mirror."""
    mirrors = [Mirror(*entry) for entry in CLASSES]
    classes = [mirror.text() for mirror in mirrors]
    imports = sorted({statement for mirror in mirrors for statement in mirror.imports()})
    text = "\n\n".join([HEADER.format(imports="\n".join(imports)), *classes])
    return ruff(ruff(text, "check", "--fix", "--select=I"), "format")


def ruff(text: str, *command: str) -> str:
    """What ruff makes of a text."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", TARGET, "-"],
        input=text,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Uncovered(f"ruff {command[0]} failed: {done.stderr}")
    return done.stdout


def main() -> int:
    """Write or check, as asked."""
    parser = argparse.ArgumentParser(description="Generate the blocking mirror of the async classes.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the mirror is out of date")
    check = parser.parse_args().check
    try:
        text = generate()
    except Uncovered as error:
        print(f"{TARGET.name} cannot be generated: {error}", file=sys.stderr)
        return 1
    if not check:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        print(f"{TARGET} is out of date: run `python scripts/generate_sync.py`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
