"""Files of the user's own, run as Python would import them, but from their source: what lies compiled beside it is not read.

Whoever can write to the directory could put there what never was in the source.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from paddock.errors import ConfigError, visible


class Source(SourceFileLoader):
    """Compiles what it loads, and keeps nothing of it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Beside:
    """Finds the modules of one directory, and of packages in it. Afterwards they hide no other of the same name."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.first = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        places = [self._directory] if path is None else [place for place in path if self._holds(place)]
        kinds = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (Source, SOURCE_SUFFIXES))
        for place in places:
            found = FileFinder(place, *kinds).find_spec(fullname)
            if found is not None and found.loader is not None:
                return found if self.first or self._is_alone(fullname, path) else None
        return None

    def _is_alone(self, fullname: str, path: Sequence[str] | None) -> bool:
        usual = PathFinder.find_spec(fullname, path)
        return usual is None or self._holds(usual.origin or "/")

    def _holds(self, place: str) -> bool:
        return Path(place).is_relative_to(self._directory)


def load(path: Path) -> ModuleType:
    """The module of a file; a `ConfigError` if there is none, or it fails."""
    path = path.resolve()
    name = f"_paddock_tools_{path.stem}"
    spec = spec_from_file_location(name, path, loader=Source(name, str(path)))
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f"'{visible(str(path))}' is no Python file.", hint="Give its path, such as ./tools.py:echo.")
    if name in sys.modules and sys.modules[name].__file__ == str(path):
        return sys.modules[name]
    module = module_from_spec(spec)
    sys.modules[name] = module
    beside = _Beside(str(path.parent))
    sys.meta_path.insert(sys.meta_path.index(PathFinder), beside)  # as for a program, whose directory comes first
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(
            f"'{visible(str(path))}' cannot be loaded: {type(error).__name__}: {error}.", hint="Run it by itself."
        ) from error
    finally:
        beside.first = False  # its functions may import more later, but nothing in the place of what Paddock needs
    return module
