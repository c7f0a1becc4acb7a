"""New assistants: a folder with one of each file, to change."""

import os
import shutil
from pathlib import Path

from paddock.assistants.assistant import Assistant, check_name
from paddock.errors import ExistsError, UnavailableError, visible
from paddock.runners.registry import load

_TEMPLATE = Path(__file__).parent / "template"
_AGENT = "AGENT    "
"""Where its name goes, with room for most: the comments of the lines stand below each other."""
_WITHOUT = """# sandbox: {agent: claude}    # an agent with files and commands; without this line the model is asked directly

"""
_DRAFTS = "  Keep drafts in the folder drafts/.\n"
"""Of a prompt, for those who have files."""


def new_assistant(folder: str | os.PathLike[str], agent: str = "claude") -> Assistant:
    """Make a folder with an assistant in it, and load it."""
    return Assistant.load(new_folder(folder, agent))


def new_folder(folder: str | os.PathLike[str], agent: str = "claude") -> Path:
    """Make the folder alone. One that is there already, with anything in it, is an `ExistsError`."""
    path = Path(os.path.abspath(folder))
    check_name(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ExistsError(f"'{visible(str(path))}' is there already.", hint="Name a folder that is not.")
    has_skills = not agent or load(agent).skills is not None
    was_there = path.exists()
    try:
        shutil.copytree(_TEMPLATE, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        if not has_skills:
            shutil.rmtree(path / "skills")
        file = path / "assistant.yml"
        file.write_text(_with_agent(file.read_text(encoding="utf-8"), agent), encoding="utf-8")
        if not agent:
            prompts = path / "prompts.yml"
            prompts.write_text(prompts.read_text(encoding="utf-8").replace(_DRAFTS, ""), encoding="utf-8")
        return path
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        if was_there:
            path.mkdir(exist_ok=True)
        raise UnavailableError(
            f"'{visible(str(path))}' cannot be written: {_why(error)}.", hint="Name another folder."
        ) from None


def _why(error: OSError) -> str:
    """`copytree` has an error of its own, with a list of what went wrong."""
    first = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
    return visible(str(first))


def _with_agent(text: str, agent: str) -> str:
    if agent:
        return text.replace(_AGENT, agent.ljust(len(_AGENT)))
    before, _, rest = text.partition("sandbox:\n")
    return before + _WITHOUT + rest.partition("\n\n")[2]
