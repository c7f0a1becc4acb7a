"""`Assistant`: a folder that says who works for whom, with what, and where."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.assistants import functions, hooks, prompts, schemas, servers, settings
from paddock.assistants.checking import check
from paddock.assistants.hooks import Hooks
from paddock.assistants.isolation import Folder
from paddock.assistants.prompts import Prompts
from paddock.assistants.servers import ServerSpec
from paddock.assistants.settings import AttachmentRules, SandboxSettings
from paddock.bridge import McpServer, Tool
from paddock.documents import Value, load
from paddock.errors import ConfigError, visible
from paddock.runners.registry import load as load_agent
from paddock.skills import Skill, load_skills
from paddock.types.network import Network, Secret
from paddock.types.times import parse_time

FILE = "assistant.yml"
_FILES = (FILE, "assistant.yaml")
READER = "read_skill"
"""The tool by which a model without files gets at what a skill says."""
_HISTORY = 40
_A_FOLDER = f"An assistant is a folder with an {FILE} in it; `paddock assistant new` makes one."


@dataclass(frozen=True, slots=True)
class Assistant:
    """One that was read from its folder, and is as it has to be."""

    name: str
    path: str
    """Its folder on this host."""
    description: str = ""
    connector: str | None = None
    variables: Mapping[str, str | None] = field(default_factory=dict)
    sandbox: SandboxSettings = SandboxSettings()  # noqa: RUF009 - frozen
    network: Network = Network.none()  # noqa: RUF009 - frozen
    secrets: tuple[Secret, ...] = ()
    tools: tuple[Tool | McpServer, ...] = ()
    servers: tuple[ServerSpec, ...] = ()
    skills: tuple[Skill, ...] = ()
    prompts: Prompts = Prompts()  # noqa: RUF009 - frozen
    hooks: Hooks = Hooks(Path(hooks.FILE))  # noqa: RUF009 - frozen
    attachments: AttachmentRules = AttachmentRules()  # noqa: RUF009 - frozen
    history: int = _HISTORY
    folder: Folder | None = field(default=None, repr=False, compare=False)
    """What holds the modules of its Python files."""

    @property
    def has_sandbox(self) -> bool:
        """Whether an agent works for it in a sandbox; otherwise the model is asked directly."""
        return bool(self.sandbox.agent)

    @property
    def is_silent(self) -> bool:
        """Whether its agent has nothing to go by, and is not asked: its hooks do all there is to do."""
        return self.has_sandbox and not any(self._to_go_by)

    @property
    def _to_go_by(self) -> tuple[object, ...]:
        return self.prompts.system, self.sandbox.options.system, self.skills, self.tools, self.servers

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> "Assistant":
        """The assistant in a folder, whose Python files are run. What is wrong is a `ConfigError` with file, line and key."""
        path = Path(os.path.abspath(os.fspath(folder)))
        top = load(_file(path))
        check(top, schemas.ASSISTANT)
        found = top.mapping()
        code = Folder(path)
        variables = _variables(found.get("variables"))
        network = settings.network(found.get("network"))
        made = cls(
            name=_name(found.get("name"), path),
            path=str(path),
            description=_text(found, "description"),
            connector=_text(found, "connector") or None,
            variables=variables,
            sandbox=settings.sandbox(found.get("sandbox"), path, found.get("model")),
            network=network,
            secrets=settings.secrets(found.get("secrets"), network),
            tools=functions.functions(found.get("tools"), code),
            servers=servers.servers(found.get("mcp"), path),
            skills=tuple(load_skills(path / "skills")),
            prompts=prompts.prompts(_prompts(path), variables),
            hooks=hooks.hooks(path, code, _seconds(found.get("hooks"))),
            attachments=settings.attachments(found.get("attachments")),
            history=found["history"].plain() if "history" in found else _HISTORY,
            folder=code,
        )
        _check_skills(made)
        return made

    def to_dict(self) -> dict[str, Any]:
        """What it is, for people and programs that look; no values of secrets."""
        return {
            "name": self.name,
            "path": self.path,
            "description": self.description,
            "connector": self.connector,
            "agent": self.sandbox.agent or None,
            "has_sandbox": self.has_sandbox,
            "variables": sorted(self.variables),
            "skills": [skill.name for skill in self.skills],
            "tools": [tool.called for tool in self.tools],
            "mcp": [server.name for server in self.servers],
            "secrets": [secret.name for secret in self.secrets],
            "hooks": [name for name, hook in (("create", self.hooks.before), ("next", self.hooks.after)) if hook],
        }


def load_assistants(folder: str | os.PathLike[str]) -> list[Assistant]:
    """All in a folder of them, by name; files, and what begins with a dot, are passed over."""
    found = [Assistant.load(one) for one in folders(Path(folder))]
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1:
            raise ConfigError(f"{one.path}: another assistant is called '{one.name}'.", hint="Rename one of them.")
    return sorted(found, key=lambda one: one.name)


def folders(path: Path) -> list[Path]:
    """Those in it that have to be assistants."""
    try:
        return sorted(one for one in path.iterdir() if one.name[0] not in "._" and one.is_dir())
    except OSError as error:
        raise ConfigError(
            f"'{visible(str(path))}' cannot be read: {error.strerror}.", hint="Name a folder with assistants in it."
        ) from None


def is_assistant(path: Path) -> bool:
    """Whether there is an assistant.yml in it."""
    return any(os.path.lexists(path / name) for name in _FILES)


def _file(path: Path) -> Path:
    if not path.is_dir():
        raise ConfigError(f"'{visible(str(path))}' is not a directory.", hint=_A_FOLDER)
    found = [path / name for name in _FILES if os.path.lexists(path / name)]
    if len(found) != 1:
        told = "two files for the assistant" if found else f"no {FILE}"
        raise ConfigError(f"'{visible(str(path))}' has {told}.", hint=_A_FOLDER)
    return found[0]


def _prompts(path: Path) -> Value | None:
    files = [path / name for name in ("prompts.yml", "prompts.yaml") if os.path.lexists(path / name)]
    if not files:
        return None
    if len(files) > 1:
        raise ConfigError(f"{visible(str(files[1]))}: there is a prompts.yml too.", hint="Keep one of them.")
    value = load(files[0])
    check(value, schemas.PROMPTS)
    return value


def _check_skills(found: Assistant) -> None:
    if found.has_sandbox and found.skills and load_agent(found.sandbox.agent).skills is None:
        raise ConfigError(
            f"{visible(found.path)}/skills: the agent '{found.sandbox.agent}' knows no skills.",
            hint="Remove them, or choose another agent.",
        )
    if not found.has_sandbox and found.skills and READER in [tool.called for tool in found.tools]:
        raise ConfigError(
            f"{visible(found.path)}/skills: without an agent they are read by a tool '{READER}', and there is one already.",
            hint=f"Give your own another name: {{use: …, name: …}} in {FILE}.",
        )


def _name(value: Value | None, path: Path) -> str:
    return check_name(path) if value is None else value.text()


def check_name(path: Path) -> str:
    """The name of a folder, if it can be that of an assistant."""
    if not re.fullmatch(schemas.NAME, path.name):
        raise ConfigError(
            f"'{visible(str(path))}': a folder of this name cannot be an assistant's name.",
            hint="Use up to 48 letters, digits, '_', '.' and '-', or give it a name: in its file.",
        )
    return path.name


def _variables(value: Value | None) -> dict[str, str | None]:
    found = value.mapping() if value is not None else {}
    for name, inner in found.items():
        if name in prompts.KNOWN:
            raise inner.error("this variable always has a value.", "Choose another name.")
    return {name: inner.plain() for name, inner in found.items()}


def _text(found: Mapping[str, Value], name: str) -> str:
    return str(found[name].plain()).strip() if name in found else ""


def _seconds(value: Value | None) -> float | None:
    block = value.mapping() if value is not None else {}
    return parse_time(block["timeout"].plain()) if "timeout" in block else None
