"""One skill: a folder with a SKILL.md, whose frontmatter says what it is for. The rules are those of agentskills."""

import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from paddock.documents import Value, load_frontmatter
from paddock.errors import ConfigError, visible
from paddock.paths import within
from paddock.types.record import Record

FILE = "SKILL.md"
FILES = (FILE, FILE.lower())
"""The second is taken where the first is missing, as the reference does."""
KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_LONGEST_COMPATIBILITY = 500
_MOST_SKILLS = 1000
_A_SKILL = f"A skill is a folder with a {FILE} in it."


@dataclass(frozen=True, slots=True)
class Skill(Record):
    """A skill that was found on this host, and is as the specification wants it."""

    name: str
    description: str
    """What it does, and when to use it."""
    path: str
    """Its folder on this host."""
    license: str | None = None
    compatibility: str | None = None
    """What it needs around it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    """What it asks to be allowed without a question, such as `Bash(git:*)`. Nothing is granted by it here."""

    @property
    def summary(self) -> str:
        """What an agent is told of it before it needs it: its name and its description."""
        return f"{self.name}: {self.description}"


def load_skill(directory: str | os.PathLike[str]) -> Skill:
    """The skill in a folder. Whatever is not as it should be is a `ConfigError` with file, line and key."""
    given = os.path.abspath(os.fspath(directory))
    if not os.path.isdir(given):
        raise ConfigError(f"'{visible(given)}' is not a directory.", hint=_A_SKILL)
    file = next((path for name in FILES if os.path.lexists(path := os.path.join(given, name))), None)
    if file is None:
        raise ConfigError(f"'{visible(given)}' has no {FILE}.", hint=f"{_A_SKILL} Add it, or move the folder away.")
    real = os.path.realpath(given)
    if not within(os.path.realpath(file), real):
        raise ConfigError(f"'{visible(file)}' is a link that leads out of its folder.", hint="Put a file there.")
    return _checked(load_frontmatter(file)[0], given, real)


def load_skills(directory: str | os.PathLike[str]) -> list[Skill]:
    """The skills in a folder of them, `NAME/SKILL.md` each, by name; none if there is no such folder.

    Files beside them, and what begins with a dot, are passed over.
    """
    given = os.path.abspath(os.fspath(directory))
    try:
        with os.scandir(given) as entries:
            names = sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"'{visible(given)}' cannot be read: {error.strerror}.", hint="Name a folder with skills in it."
        ) from None
    if len(names) > _MOST_SKILLS:
        raise ConfigError(f"'{visible(given)}' has {len(names)} folders.", hint=f"Keep it to {_MOST_SKILLS} skills.")
    return [load_skill(os.path.join(given, name)) for name in names]


def _checked(top: Value, given: str, real: str) -> Skill:
    found = top.mapping(KEYS)
    for key in ("name", "description"):
        if key not in found:
            raise top.error(f"{key} is missing.", f"Add a line `{key}: …` to the frontmatter.")
    licence, compatibility = found.get("license"), found.get("compatibility")
    return Skill(
        name=_name(found["name"], os.path.basename(given)),
        description=found["description"].text(longest=_LONGEST_DESCRIPTION).strip(),
        path=real,
        license=licence.text().strip() if licence else None,
        compatibility=compatibility.text(longest=_LONGEST_COMPATIBILITY).strip() if compatibility else None,
        metadata=_metadata(found.get("metadata")),
        allowed_tools=_tools(found.get("allowed-tools")),
    )


def _name(value: Value, folder: str) -> str:
    name = unicodedata.normalize("NFKC", value.text().strip())
    hint = "Use lower-case letters, digits and single hyphens between them, such as 'pdf-forms'."
    if len(name) > _LONGEST_NAME:
        raise value.error(f"it has {len(name)} characters.", f"Keep it to {_LONGEST_NAME}.")
    if name != name.lower():
        raise value.error(f"'{visible(name)}' has capital letters.", hint)
    if not all(character.isalnum() or character == "-" for character in name):
        raise value.error(f"'{visible(name)}' has other characters than letters, digits and hyphens.", hint)
    if name.startswith("-") or name.endswith("-") or "--" in name:
        raise value.error(f"'{visible(name)}' has a hyphen at an end, or two in a row.", hint)
    if unicodedata.normalize("NFKC", folder) != name:
        raise value.error(
            f"'{visible(name)}' is not the name of its folder, '{visible(folder)}'.", "Rename one of them."
        )
    return name


def _metadata(value: Value | None) -> dict[str, str]:
    if value is None or value.content is None:
        return {}
    found: dict[str, str] = {}
    for name, inner in value.mapping().items():
        if inner.written is None:
            raise inner.error("it is not text.", "Here each key has one text; quote it if it is not taken for one.")
        found[name] = inner.written
    return found


def _tools(value: Value | None) -> tuple[str, ...]:
    """Words, or a list of them. What is in parentheses belongs to one word: half of a rule would allow more than all."""
    if value is None or value.content is None:
        return ()
    if isinstance(value.content, tuple):
        return tuple(item.text().strip() for item in value.content if _whole(item))
    _whole(value)
    words, depth = [""], 0
    for character in value.text():
        depth += (character == "(") - (character == ")")
        if depth == 0 and (character.isspace() or character == ","):
            words.append("")
        else:
            words[-1] += character
    return tuple(word for word in words if word)


def _whole(value: Value) -> bool:
    """Whether each parenthesis is closed; an error if not."""
    depth = 0
    for character in value.text():
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    if depth != 0:
        raise value.error("there is a parenthesis without the other one.", "Write rules such as `Bash(git:*) Read`.")
    return True
