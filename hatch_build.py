"""The package's build: compiles the supervisor and writes its filters, which the wheel then carries."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SupervisorHook(BuildHookInterface[Any]):
    """`paddock-init`, for the machine that builds. It runs on Linux only: elsewhere the wheel goes without it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for one kind of machine."""
        if sys.platform != "linux":
            self.app.display_warning(
                "paddock-init is not built: it needs Linux. The backend 'memory' works without it."
            )
            return
        supervisor = _load(Path(self.root) / "supervisor" / "build.py")
        target = supervisor.build(supervisor.default_target(), release=supervisor.release())
        carried = [target, *supervisor.write_filters(target.parent)]
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in carried]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{os.uname().machine}"


def _load(path: Path) -> ModuleType:
    spec = spec_from_file_location("paddock_supervisor_build", path)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
