"""What an agent is told of where it works, beside what the assistant tells it."""

from paddock.assistants.assistant import Assistant
from paddock.assistants.attachments import FOLDER
from paddock.assistants.prompts import filled

_PLACE = """# Where you work

You work in a sandbox on Linux, without anybody beside you. Your working directory is {workdir}: what is to stay goes there.
Put each project into a folder of its own below it. Nobody can answer a prompt: use no interactive programs (editors, pagers,
REPLs, menus), and give commands the options that make them ask nothing. What the user sends along is in {attachments}."""


def system_prompt(assistant: Assistant, variables: dict[str, str], workdir: str | None) -> str:
    """All that is added to the agent's own system prompt."""
    place = _PLACE.format(workdir=workdir, attachments=f"{workdir}/{FOLDER}") if workdir else ""
    language = f"Answer in this language: {variables['locale']}." if variables["locale"] else ""
    return "\n\n".join(text for text in (filled(assistant.prompts.system, variables).strip(), place, language) if text)
