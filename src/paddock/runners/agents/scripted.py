"""The scripted agent: it comes with Paddock, does what its prompt says, and needs neither a model nor a download."""

from pathlib import Path

from paddock.runners.agent import Launch, Task
from paddock.runners.native import NativeReader
from paddock.runners.options import Options
from paddock.runners.programs import PLACE, Program
from paddock.types.mounts import Mount

_MEMORY = ".paddock/scripted"
_NO_WORD = ("model", "permission", "max_turns", "allowed_tools", "disallowed_tools")


class Scripted:
    """For demonstrations, and for tests of what is built on agents."""

    name = "scripted"
    title = "The scripted agent"
    needs_models = False
    command = ("paddock-scripted",)
    install = "it comes with Paddock"
    skills = None
    sessions = (_MEMORY,)

    def find(self) -> Program:
        """It is here."""
        folder, place = Path(__file__).parents[1] / "scripted", f"{PLACE}/scripted"
        return Program(self.name, ("python3", f"{place}/play.py"), (Mount(folder, place),), str(folder / "play.py"))

    def check(self, options: Options) -> None:
        """It does what it is told, and asks nobody."""
        options.refuse(self.title, _NO_WORD)

    def launch(self, task: Task) -> Launch:
        """Where it remembers, and where the tools are."""
        memory = f"{task.inside.home}/{_MEMORY}/{task.resume or task.session}"
        return Launch(
            (*task.inside.program, memory, *task.inside.bridge),
            task.conversation.prompt.encode(),
            {"HOME": task.inside.home, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def reader(self, task: Task) -> NativeReader:
        """It speaks Paddock's own events."""
        return NativeReader(self.name)
