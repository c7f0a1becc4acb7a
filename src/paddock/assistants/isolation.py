"""Python files of an assistant: from their source, and each assistant by itself.

Two assistants may both have a `hooks.py`, and a `prices.py` beside it that it imports: each gets its own. So a folder is a
package that nobody else can name, and what its files import is looked for there first. What Python itself remembers of it,
it forgets with the folder: nothing of that holds the folder.
"""

import builtins
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import finalize, ref

from paddock.assistants.settings import inside
from paddock.errors import ConfigError, visible
from paddock.loading import Source

_PREFIX = "_paddock_assistant_"
_numbers = count(1)


class Folder:
    """The Python files of one folder. Nothing is run before it is asked for; whoever uses its functions holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self.package = f"{_PREFIX}{next(_numbers)}"
        self._begun = False

    def module(self, file: str) -> ModuleType:
        """The module of a file, such as `hooks.py`; a `ConfigError` if there is none, or it fails."""
        path = inside(self._path, file)
        if path is None or not path.is_file() or path.suffix != ".py":
            raise ConfigError(
                f"'{visible(str(self._path / file))}' is no Python file of the assistant.",
                hint="Name one in its folder.",
            )
        self._begin()
        name = ".".join([self.package, *path.relative_to(self._path).with_suffix("").parts])
        try:
            return import_module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a file raises, the others are looked at all the same
            raise ConfigError(
                f"{where(error, path)}: it cannot be loaded: {said(error)}.", hint="Correct it."
            ) from error

    def holds(self, name: str) -> bool:
        """Whether a module or package of this name is there."""
        return (self._path / f"{name}.py").is_file() or (self._path / name / "__init__.py").is_file()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            package = ModuleType(self.package)
            package.__path__ = [str(self._path)]
            sys.modules[self.package] = package
            finder = _Finder(ref(self), self.package)
            sys.meta_path.insert(0, finder)
            finalize(self, _forget, finder, self.package).atexit = False


def _forget(finder: "_Finder", package: str) -> None:
    with suppress(ValueError):
        sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        sys.modules.pop(name, None)


def _imported(
    whose: "ref[Folder]",
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> ModuleType:
    """What `import` does in the files of a folder."""
    folder, top = whose(), name.partition(".")[0]
    if level or folder is None or not folder.holds(top):
        return builtins.__import__(name, globals, locals, fromlist, level)
    if fromlist:
        return builtins.__import__(f"{folder.package}.{name}", globals, locals, fromlist, 0)
    import_module(f"{folder.package}.{name}")
    return sys.modules[f"{folder.package}.{top}"]


class _Finder:
    """Finds the modules of one folder, by the package's name."""

    def __init__(self, folder: "ref[Folder]", package: str) -> None:
        self._folder = folder
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if not fullname.startswith(f"{self._package}."):
            return None
        for place in path or ():
            found = FileFinder(place, (Source, SOURCE_SUFFIXES)).find_spec(fullname)
            if found is not None and found.loader is not None:
                found.loader = _Loader(fullname, str(found.origin), self._folder)
                return found
        return None


class _Loader(Source):
    """Runs a file with an `import` of its own."""

    def __init__(self, fullname: str, path: str, folder: "ref[Folder]") -> None:
        super().__init__(fullname, path)
        self._folder = folder

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": partial(_imported, self._folder)}
        super().exec_module(module)


def where(error: BaseException, path: Path) -> str:
    """The last line that led to an error, in this file or in one that it imports from its folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{visible(error.filename)}, line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.lineno and Path(frame.filename).is_relative_to(path.parent)]
    return f"{visible(own[-1].filename)}, line {own[-1].lineno}" if own else visible(str(path))


def said(error: BaseException) -> str:
    """What went wrong, in one line."""
    try:
        words = str(error.msg if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001 - an error of somebody's own may have no words
        words = ""
    return visible(f"{type(error).__name__}: {' '.join(words.split())}"[:600]).rstrip(".")
