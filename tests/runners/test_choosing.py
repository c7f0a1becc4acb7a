"""What may be chosen about a run, and what a conversation becomes."""

import itertools
import json
import math
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import ConfigError
from paddock.runners import Message, Options, Program
from paddock.runners.agent import Inside, Task
from paddock.runners.messages import Conversation, conversation
from paddock.runners.registry import load
from paddock.runners.sessions import session_id

SAID = [
    Message("system", "Be terse."),
    Message("user", "What is 1+1?"),
    Message("assistant", "Two."),
    Message("system", "Be kind."),
    Message("user", [{"type": "text", "text": "And"}, {"type": "image_url"}, {"type": "text", "text": "now?"}]),
]


def flags(options: Options, resume: str | None = None) -> list[str]:
    inside = Inside("/home/agent", "/workspace", ("claude",))
    task = Task(Conversation("", (), "Do it."), options, inside, session_id("x"), resume)
    return list(load("claude").launch(task).argv)


def test_only_what_is_listed_becomes_a_flag() -> None:
    options = Options(model="m", max_turns=3, allowed_tools=("Bash", "Edit"), disallowed_tools=("WebFetch",))
    given = flags(options)
    assert given == flags(options)
    pairs = dict(itertools.pairwise(given))
    assert (pairs["--max-turns"], pairs["--allowedTools"]) == ("3", "Bash,Edit")
    assert (pairs["--disallowedTools"], pairs["--model"]) == ("WebFetch", "m")
    assert not {"--max-turns", "--allowedTools", "--disallowedTools", "--model"} & set(flags(Options()))
    assert "Do it." not in given  # what is asked goes by standard input


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("made_up", 1),
        ("max_turns", 0),
        ("max_turns", True),
        ("max_turns", "3"),
        ("permission", "root"),
        ("model", "--dangerous"),
        ("model", ""),
        ("model", "a\nb"),
        ("allowed_tools", "Bash"),
        ("allowed_tools", ["-x"]),
        ("disallowed_tools", [1]),
        ("timeout", 0),
        ("timeout", True),
        ("patience", "1"),
        ("system", 3),
        ("system", "\ud800"),
    ],
)
def test_what_cannot_be_chosen(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        Options.of({option: value})


def test_a_block_of_a_configuration() -> None:
    block = {"max_turns": 3, "allowed_tools": ["Bash"], "timeout": 60, "permission": "edit"}
    assert Options.of(block) == Options(max_turns=3, allowed_tools=("Bash",), timeout=60, permission="edit")
    assert Options.from_dict(Options.of(block).to_dict()) == Options.of(block)


def test_a_conversation() -> None:
    said = conversation(SAID)
    assert said.system == "Be terse.\n\nBe kind."
    assert [(turn.role, turn.text) for turn in said.turns] == [("user", "What is 1+1?"), ("assistant", "Two.")]
    assert said.prompt == "And\nnow?"
    assert said.whole().endswith("User: What is 1+1?\n\nAssistant: Two.\n\n# Now the user says\n\nAnd\nnow?")
    assert conversation("Do it.").whole() == "Do it."
    assert Message("user", None).text == ""


@pytest.mark.parametrize("wrong", ["say \udcff", [Message("system", "\ud800"), Message("user", "x")]])
def test_characters_that_are_none(wrong: Any) -> None:
    """As of bytes on a command line that are no text, or of half a character in JSON."""
    with pytest.raises(ConfigError, match="characters that are none"):
        conversation(wrong)


@pytest.mark.parametrize("wrong", [{"content": "x"}, {"role": "tool", "content": "x"}, "x", 7])
def test_what_is_no_message(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        conversation([wrong])


def test_who_goes_on_is_told_the_last_and_a_new_one_all() -> None:
    inside = Inside("/home/agent", "/workspace", ("claude",))
    new = Task(conversation(SAID), Options(system="Mine."), inside, "s")
    on = Task(conversation(SAID), Options(), inside, "s", resume="s")
    assert "What is 1+1?" in new.prompt
    assert on.prompt == "And\nnow?"
    assert new.system == "Mine.\n\nBe terse.\n\nBe kind."
    assert "--resume" in flags(Options(), "s")
    assert "--session-id" in flags(Options())


def servers(agent: str, bridge: tuple[str, ...], **options: Any) -> Any:
    """The MCP servers that an agent's own files name."""
    inside = Inside("/home/agent", "/workspace", (agent,), bridge, "http://127.0.0.1:1", "m")
    launch = load(agent).launch(Task(conversation("Do it."), Options(**options), inside, session_id("x")))
    assert not any(path.startswith(("/", "..")) for path in launch.files), "they are all below the home"
    if agent == "codex":
        return tomllib.loads(launch.files[".codex/config.toml"]).get("mcp_servers", {})
    if agent == "opencode":
        return json.loads(launch.files[".config/opencode/opencode.json"]).get("mcp", {})
    (file,) = [path for path in launch.files if path.endswith(("mcp.json", ".gemini/settings.json"))]
    return json.loads(launch.files[file])["mcpServers"]


@pytest.mark.parametrize("agent", ["claude", "codex", "cursor", "gemini", "opencode"])
def test_one_server_or_none(agent: str) -> None:
    """The bridge, with its socket wherever that is; without a grant there is none."""
    (one,) = servers(agent, ("/run/elsewhere/bridge", "/run/elsewhere/socket")).items()
    assert one[0] == "paddock"
    assert "/run/elsewhere/bridge" in str(one[1])
    assert "/run/elsewhere/socket" in str(one[1])
    assert servers(agent, ()) == {}


@pytest.mark.parametrize(
    ("timeout", "milliseconds"), [(90.0, 90_000), (math.inf, 2_000_000_000), (1e12, 2_000_000_000)]
)
@pytest.mark.parametrize("agent", ["gemini", "opencode"])
def test_a_tool_has_the_time_of_the_run(agent: str, timeout: float, milliseconds: int) -> None:
    """No more than programs can count, for whom a number that is too large is none at all."""
    assert servers(agent, ("bridge", "socket"), timeout=timeout)["paddock"]["timeout"] == milliseconds


ANY_TEXT = st.text(st.characters())
"""Also what is none, as in the name of a directory."""


@given(ANY_TEXT, ANY_TEXT)
def test_sessions_have_names_that_are_always_the_same(one: str, other: str) -> None:
    assert (session_id(one) == session_id(other)) is (one == other)
    assert (session_id(one, "p") == session_id(other, "p")) is (one == other)
    assert session_id(one) != session_id(other, "p") != session_id(other, "q")
    assert session_id(None) != session_id(None)


def test_nothing_of_the_host_is_in_what_is_kept() -> None:
    """A program and its options say nothing of users, chats, keys or addresses."""
    kept = {**Program("claude", ("claude",)).to_dict(), **Options().to_dict()}
    assert set(kept) == {
        "agent", "argv", "mounts", "found", "version",
        "model", "system", "permission", "max_turns", "allowed_tools", "disallowed_tools", "timeout", "patience",
    }  # fmt: skip
