"""The files of an assistant: what they may say, and errors that name file, line and key."""

import asyncio
import gc
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assistants.folders import made, written
from paddock import ConfigError, Network
from paddock.assistants import Assistant, load_assistants
from paddock.assistants.environment import system_prompt
from paddock.assistants.prompts import filled, variables_for
from paddock.assistants.schemas import SCHEMAS

WHOLE = """
    name: helper
    description: Helps.
    connector: claude
    model: large
    variables: {project: apollo, team: null}
    sandbox:
      command: claude
      max_memory: 4g
      max_cpu: 1.5
      timeout: 10m
      policy: session
      idle_timeout: 5m
      env: {LANG: C}
      arguments: {max_turns: 7, disallowed_tools: [WebFetch]}
      prepare:
        - {file: notes.md, content: hi, keep: true}
        - {copy: seed, to: data, once: true}
        - {exec: [make, all], background: true}
    network: [pypi.org, "*.example.org:443"]
    secrets:
      TOKEN: {hosts: [api.example.org], value: $ENV.OTHER, tls: true}
    tools: ["tools.py:add", {use: "tools.py:add", name: plus, timeout: 5s}]
    mcp:
      search: {url: "https://mcp.example.org/mcp", headers: {Authorization: "Bearer $ENV.SEARCH"}}
    hooks: {timeout: 5s}
    attachments: {max: 2, max_bytes: 1m, allowed: [pdf, .TXT]}
    history: 10
"""
TOOLS = """
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

def many(*all: int) -> int: ...
def untold(a: "Nothing") -> int: ...
"""

READER = "def read_skill(name: str) -> str: ...\n"
SKILL = "---\nname: a\ndescription: x\n---\n"


def test_everything_it_may_say(tmp_path: Path) -> None:
    found = made(
        tmp_path / "a",
        seed__a_txt="x",
        assistant_yml=WHOLE,
        tools_py=TOOLS,
        prompts_yml="system: Help {{user}} with {{ project }}.\nexamples:\n  - {user: hi, assistant: hello}\n",
        skills__notes__SKILL_md="---\nname: notes\ndescription: Notes.\n---\n",
        mcp__tickets_yml="command: python3 tickets.py --all\nenv: {TOKEN: $ENV.TICKETS}\nonly: [find]\ntimeout: 9s\n",
    )
    assert (found.name, found.connector, found.has_sandbox, found.history) == ("helper", "claude", True, 10)
    box = found.sandbox
    assert (box.agent, box.policy, box.idle_timeout, dict(box.env)) == ("claude", "session", 300, {"LANG": "C"})
    assert box.limits is not None
    assert (box.limits.memory, box.limits.cpu) == (4 << 30, 1.5)
    assert (box.options.timeout, box.options.max_turns, box.options.model) == (600, 7, "large")
    assert box.options.disallowed_tools == ("WebFetch",)
    assert [step.words for step in box.prepare] == ["write notes.md", "copy seed", "make all"]
    assert found.network == Network.allow("pypi.org", "*.example.org:443")
    assert (found.secrets[0].name, found.secrets[0].variable, found.secrets[0].tls) == ("TOKEN", "OTHER", True)
    assert [tool.called for tool in found.tools] == ["add", "plus"]
    assert {server.name for server in found.servers} == {"search", "tickets"}
    assert [skill.name for skill in found.skills] == ["notes"]
    assert (found.hooks.seconds, found.attachments.allowed) == (5, (".pdf", ".txt"))
    assert json.loads(json.dumps(found.to_dict()))["tools"] == ["add", "plus"]


@pytest.mark.parametrize("text", ["{}", "sandbox: {}", 'sandbox: {agent: ""}', 'sandbox: {command: ""}'])
def test_without_an_agent_there_is_no_sandbox(tmp_path: Path, text: str) -> None:
    assert made(tmp_path / "a", assistant_yml=text).has_sandbox is False
    assert made(tmp_path / "b", assistant_yml="sandbox: {agent: scripted}").has_sandbox is True


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("sandbox:\n  timeout: soon", 2, "sandbox.timeout: invalid timeout: 'soon' is not a time"),
        ("sandbox:\n  agent: claude\n  memory: lots", 3, "sandbox.memory: invalid memory"),
        ("sandbox:\n  cpu: 0", 2, "sandbox.cpu: '0' is too small"),
        ("sandbox:\n  agnet: claude", 2, "sandbox.agnet: there is no such key here. Did you mean 'agent'?"),
        ("sandbox:\n  agent: nobody", 2, "sandbox.agent: there is no agent 'nobody'"),
        ("sandbox:\n  agent: claude\n  command: claude", 3, "sandbox.command: it is another word for agent"),
        ("sandbox:\n  policy: forever", 2, "sandbox.policy: 'forever' is unknown"),
        (
            "sandbox:\n  policy: oneshot\n  idle_timeout: 5m",
            3,
            "sandbox.idle_timeout: a sandbox of the policy oneshot has no",
        ),
        (
            "sandbox:\n  lifetime: 5m\n  policy: persistent",
            2,
            "sandbox.lifetime: a sandbox of the policy persistent has",
        ),
        ("sandbox:\n  arguments:\n    max_turns: many", 3, "sandbox.arguments.max_turns"),
        ("sandbox:\n  arguments:\n    colour: red", 3, "sandbox.arguments.colour: 'colour' is no option"),
        ("sandbox:\n  prepare:\n    - {file: a, exec: b}", 3, "sandbox.prepare[0]: a step is one of"),
        (
            "sandbox:\n  prepare:\n    - exec: a\n      keep: true",
            4,
            "sandbox.prepare[0].keep: a step with exec has no",
        ),
        ("sandbox:\n  prepare:\n    - {copy: a, to: b}", 3, "sandbox.prepare[0].copy: it is not in the folder"),
        ("sandbox:\n  prepare:\n    - {copy: ../b, to: b}", 3, "sandbox.prepare[0].copy: it is not in the folder"),
        ("sandbox:\n  backend: nowhere", 2, "sandbox.backend: there is no backend 'nowhere'"),
        ("sandbox:\n  env: {A=B: x}", 2, "sandbox.env.A=B: 'A=B' cannot be a name here"),
        ("sandbox:\n  prepare:\n    - copy: a", 3, "sandbox.prepare[0]: it does not say where to"),
        ("sandbox:\n  agent: claude\n  cpu: 1e12", 3, "sandbox.cpu: Limits.cpu=1000000000000.0 is not"),
        ("sandbox:\n  max_cpu: 1e12", 2, "sandbox.max_cpu: Limits.cpu="),
        ("sandbox:\n  cpu: 1\n  pids: 3000000000", 3, "sandbox.pids: Limits.pids=3000000000 is not"),
        ("sandbox:\n  arguments:\n    allowed_tools: 5", 3, "sandbox.arguments.allowed_tools: '5' cannot be here"),
        ("model: '-x'", 1, "model: model='-x' is no name"),
        ("sandbox:\n  arguments: {max_turns: 3}\nmodel: '-x'", 3, "model: model='-x' is no name"),
        ("model: x\nsandbox:\n  arguments:\n    model: '-x'", 4, "sandbox.arguments.model: model='-x' is no name"),
        ("connector: [a]", 1, "connector: a list cannot be here"),
        ("description: ''", 1, "description: it is empty"),
        ("history: -1", 1, "history: '-1' is too small"),
        ("variables: {user: x}", 1, "variables.user: this variable always has a value"),
        ("network: everything", 1, "network: 'everything' is unknown"),
        ("network: ['a b']", 1, "network"),
        ("secrets:\n  T: {hosts: []}", 2, "secrets.T.hosts: the list is empty"),
        ("secrets:\n  T: {}", 2, "secrets.T: there is no 'hosts'"),
        ("secrets:\n  T: {hosts: [a.org], value: hunter2}", 2, "secrets.T.value"),
        (
            "network: [b.org]\nsecrets:\n  T: {hosts: [a.org]}",
            3,
            "secrets.T: The secret T is for a.org:80, which the network",
        ),
        (
            "sandbox:\n  agent: codex\n  arguments: {max_turns: 3}",
            3,
            "sandbox.arguments.max_turns: Codex has no word for",
        ),
        ("sandbox:\n  agent: scripted\nmodel: large", 3, "model: The scripted agent has no word for model"),
        (
            "sandbox:\n  agent: gemini\n  arguments:\n    allowed_tools: ['a b']",
            3,
            "sandbox.arguments: 'a b' is no tool",
        ),
        ("tools: [tools.py]", 1, "tools[0]: 'tools.py' is not as it has to be"),
        ("tools:\n  - tools.py:nothing", 2, "tools[0]: tools.py has no function 'nothing'"),
        ("tools:\n  - missing.py:add", 2, "tools[0]"),
        ("tools:\n  - tools.py:many", 2, "tools[0]: 'many' cannot be a tool: its parameter 'all'"),
        ("tools:\n  - tools.py:untold", 2, "tools[0]: 'untold' cannot be a tool: name 'Nothing' is not defined"),
        ("tools:\n  - tools.py:add\n  - tools.py:add", 3, "tools[1]: there is a tool 'add' already"),
        ("mcp: {a: {}}", 1, "mcp.a: a server has either a command or a url"),
        ("mcp: {a: {command: 'a \"b'}}", 1, "mcp.a.command: a quote is not closed"),
        ("name: 'a b'", 1, "name: 'a b' is not as it has to be"),
        ("a: 1\na: 2", 2, "a: it is there already"),
        ("history: 0\ndescription: '\\U0'\nname: \"\\U00110000\"", 3, "there is no such character"),
        (
            'sandbox:\n  prepare:\n    - {copy: "a\\0b", to: c}',
            3,
            "sandbox.prepare[0].copy: it has a character that no",
        ),
        ('sandbox:\n  env: {A: "\\ud800"}', 2, "sandbox.env.A: it has a character that no text can have"),
        (
            f"sandbox:\n  prepare:\n    - {{copy: {'a' * 999}, to: c}}",
            3,
            "sandbox.prepare[0].copy: it is not in the folder",
        ),
        (f"sandbox:\n  workspace: {'a' * 513}", 2, "sandbox.workspace: it has 513 characters"),
        (f"tools: [{'a' * 999}.py:add]", 1, "tools[0]"),
        ("mcp:\n  a: {url: 'http://['}", 2, "mcp.a: 'http://[' is no URL of a server"),
        ("hooks: {timeout: 1e300}", 1, "hooks.timeout: invalid timeout: '1e300' is not a time"),
    ],
)
def test_errors_name_file_line_and_key(tmp_path: Path, text: str, line: int, words: str) -> None:
    folder = written(tmp_path / "a", assistant_yml=text, tools_py=TOOLS)
    with pytest.raises(ConfigError) as caught:
        Assistant.load(folder)
    assert str(caught.value).startswith(f"{folder}/assistant.yml, line {line}: ")
    assert words in str(caught.value)


def test_a_value_of_a_secret_is_never_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        made(tmp_path / "a", assistant_yml="secrets:\n  T: {hosts: [a.org], value: hunter2}")
    assert "$ENV" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_variable_that_nobody_knows(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "a",
        assistant_yml="variables: {b: x}",
        prompts_yml="system: hi {{b}}\ngreeting: |\n  hi\n\n  you {{nobody}}",
    )
    with pytest.raises(ConfigError, match=r"prompts.yml, line 5: greeting: there is no variable 'nobody'.*Known: user"):
        Assistant.load(folder)


@pytest.mark.parametrize("text", ["hi {{user}", "{{user", "{{ {user} }}"])
def test_a_variable_that_is_not_closed(tmp_path: Path, text: str) -> None:
    """It would be told as it is written, braces and all."""
    folder = written(tmp_path / "a", assistant_yml="{}", prompts_yml=f"greeting: hi\nsystem: '{text}'\n")
    with pytest.raises(ConfigError, match=r"prompts.yml, line 2: system: a variable is not closed"):
        Assistant.load(folder)


@pytest.mark.parametrize("text", ["{{{{name}}}} {{user}}", '{"a": {"b": 1}}', "{x} }} {", "{{{user}}}"])
def test_braces_that_are_no_variable(tmp_path: Path, text: str) -> None:
    assert made(tmp_path / "a", prompts_yml=f"system: '{text}'\n").prompts.system == text


def test_variables_are_filled_in_once(tmp_path: Path) -> None:
    found = variables_for({"a": "1", "b": None}, {"b": "{{a}}"}, {"user": "ann"})
    assert filled("{{a}} {{ b }} {{user}} {x}", found) == "1 {{a}} ann {x}"
    assert filled("{{{{a}}}} {{{{ {{a}} }}}} }} {", found) == "{{a}} {{ 1 }} }} {"
    with pytest.raises(ConfigError, match="'b' has to be given"):
        variables_for({"b": None}, {}, {})
    with pytest.raises(ConfigError, match="has no variable 'c'"):
        variables_for({"b": None}, {"b": "x", "c": "y"}, {})


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"hooks_py": "import nothing_like_it\n"}, "hooks.py, line 1: it cannot be loaded: ModuleNotFoundError"),
        ({"hooks_py": "x = 1\ndef create(ctx:\n"}, "hooks.py, line 2: it cannot be loaded: SyntaxError"),
        ({"hooks_py": "def create(ctx): ...\n"}, "hooks.py, line 1: create: it cannot be called"),
        ({"hooks_py": "create = dict.update\n"}, "hooks.py, line 1: create: it cannot be called"),
        ({"hooks_py": "async def create(ctx, messages):\n    yield 'x'\n"}, "hooks.py, line 1: create: it has a yield"),
        ({"hooks_py": "def next(ctx, reply):\n    yield 'x'\n"}, "hooks.py, line 1: next: it has a yield in it"),
        ({"hooks_py": "def created(ctx, messages): ...\n"}, "hooks.py: it has neither create nor next"),
        ({"prompts_yml": "system: a\n", "prompts_yaml": "system: b\n"}, "prompts.yaml: there is a prompts.yml too"),
        ({"mcp__a_json": "{}"}, "mcp/a.json: servers are written as YAML"),
        (
            {"assistant_yml": "sandbox: {agent: scripted}", "skills__a__SKILL_md": SKILL},
            "/skills: the agent 'scripted' knows no skills",
        ),
        (
            {"assistant_yml": "tools: ['t.py:read_skill']", "t_py": READER, "skills__a__SKILL_md": SKILL},
            "/skills: without an agent they are read by a tool 'read_skill', and there is one already",
        ),
        ({"hooks_py": "raise SystemExit(3)\n"}, "hooks.py, line 1: it cannot be loaded: SystemExit"),
        ({"hooks_py": "class Odd(BaseException): ...\nraise Odd\n"}, "hooks.py, line 2: it cannot be loaded: Odd"),
        ({"hooks_py": "import more\n", "more_py": "x = 1\ny = x / 0\n"}, "more.py, line 2: it cannot be loaded: Zero"),
        ({"prompts_yml": "system: 3\n"}, "prompts.yml, line 1: system: '3' cannot be here"),
        (
            {"mcp__a_yml": "comand: x\n"},
            "mcp/a.yml, line 1: comand: there is no such key here. Did you mean 'command'?",
        ),
        ({"assistant_yml": "mcp: {a: {url: http://x}}", "mcp__a_yml": "command: x\n"}, "there is a server 'a' already"),
        ({"skills__Bad__SKILL_md": "---\nname: Bad\ndescription: x\n---\n"}, "SKILL.md, line 2: name"),
    ],
)
def test_errors_of_the_other_files(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(tmp_path / "a", **files)
    assert words in str(caught.value)


def test_a_name_that_is_taken_without_an_agent_is_free_with_one(tmp_path: Path) -> None:
    yml = "tools: ['t.py:read_skill']\n"
    assert made(tmp_path / "a", assistant_yml=yml, t_py=READER).tools
    with_agent = f"{yml}sandbox: {{agent: claude}}\n"
    assert made(tmp_path / "b", assistant_yml=with_agent, t_py=READER, skills__a__SKILL_md=SKILL).skills


def test_terms_hold_for_what_is_a_tool_already(tmp_path: Path) -> None:
    """`consent: ask` is never passed over; and what a tool says itself stays where the line says nothing."""
    tools = """
        from paddock.bridge import McpServer, Tool

        def pay(sum: int) -> int: ...

        plain = Tool(pay, name="plain")
        asking = Tool(pay, name="asking", consent="ask", timeout=5)
        server = McpServer(["true"], name="server")
    """
    yml = """
        tools:
          - {use: tools.py:plain, consent: ask, name: paid, timeout: 7s}
          - tools.py:asking
          - {use: tools.py:server, consent: ask}
          - {use: tools.py:pay, consent: ask}
          - {use: tools.py:pay, name: free}
    """
    found = made(tmp_path / "a", assistant_yml=yml, tools_py=tools).tools
    assert [(tool.called, tool.consent, tool.timeout) for tool in found] == [
        ("paid", "ask", 7.0),
        ("asking", "ask", 5),
        ("server", "ask", 60.0),
        ("pay", "ask", 60.0),
        ("free", "allowed", 60.0),
    ]


def test_hooks_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    """A link that leads nowhere is none that was meant to be passed over."""
    folder = written(tmp_path / "a", assistant_yml="{}")
    (folder / "hooks.py").symlink_to("nowhere.py")
    with pytest.raises(ConfigError, match=r"hooks\.py' is no Python file of the assistant"):
        Assistant.load(folder)


def test_each_assistant_has_its_own_modules(tmp_path: Path) -> None:
    """Also those of a name that another has, or that Python itself has, whenever they are imported."""
    hooks = """
        import prices
        from prices import PRICE
        import json

        async def create(ctx, messages):
            import later
            from later.deeper import DEEP
            return f"{PRICE} {prices.PRICE} {later.NAME} {DEEP} {json.dumps([1])}"
    """
    found = {}
    for name in ("a", "b"):
        (tmp_path / name / "later").mkdir(parents=True)
        (tmp_path / name / "later" / "__init__.py").write_text(f"NAME = 'later-{name}'\n")
        deeper = "from . import NAME\nDEEP = NAME * 2\n"
        one = made(tmp_path / name, hooks_py=hooks, prices_py=f"PRICE = '{name}'\n", later__deeper_py=deeper)
        found[name] = one.hooks
    for name, hook in found.items():
        assert hook.before is not None
        expected = f"{name} {name} later-{name} later-{name}later-{name} [1]"
        assert asyncio.run(hook.before(None, [])) == expected
    assert not {"prices", "later"} & set(sys.modules)
    assert not list(tmp_path.rglob("__pycache__"))


def test_what_is_not_needed_any_more_is_forgotten(tmp_path: Path) -> None:
    """A service that loads an assistant anew for each change has no more of them than it holds."""
    hooks = "import prices\ndef create(ctx, messages):\n    import prices\n    return prices.PRICE\n"
    files = {"hooks_py": hooks, "prices_py": "PRICE = '3'\n"}

    def known() -> tuple[int, int]:
        modules = [name for name in sys.modules if name.startswith("_paddock_assistant_")]
        return len(sys.meta_path), len(modules)

    gc.collect()
    before = known()
    kept = made(tmp_path / "a", **files)
    with_one = known()
    for _ in range(3):
        made(tmp_path / "a", **files)
        with pytest.raises(ConfigError):
            made(tmp_path / "b", hooks_py="import nothing_like_it\n")
    gc.collect()
    assert known() == with_one > before
    assert kept.hooks.before is not None
    assert kept.hooks.before(None, []) == "3"
    copy = replace(kept, name="copy")
    del kept
    assert copy.hooks.before is not None
    assert copy.hooks.before(None, []) == "3"
    del copy
    gc.collect()
    assert known() == before


def test_what_an_agent_is_told_of_where_it_works(tmp_path: Path) -> None:
    found = made(tmp_path / "a", prompts_yml="system: Help {{user}}.\n")
    told = system_prompt(found, {"user": "ann", "locale": "pt-BR"}, "/workspace")
    first, _, place, language = told.split("\n\n")
    assert (first, language) == ("Help ann.", "Answer in this language: pt-BR.")
    for words in (
        "Your working directory is /workspace",
        "each project into a folder of its own",
        "use no interactive programs (editors, pagers,",
        "What the user sends along is in /workspace/.attachments.",
    ):
        assert words in place
    assert system_prompt(found, {"user": "ann", "locale": ""}, None) == "Help ann."


def test_variables_of_this_host_for_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = made(tmp_path / "a", mcp__t_yml="command: x\nenv:\n  TOKEN: Bearer $ENV.MY_TICKETS\n")
    with pytest.raises(ConfigError, match=r"t.yml, line 3: env.TOKEN: the variable MY_TICKETS is not set"):
        found.servers[0].server()
    monkeypatch.setenv("MY_TICKETS", "abc")
    assert found.servers[0].server().env == {"TOKEN": "Bearer abc"}
    assert found.servers[0].server().cwd == tmp_path / "a"


def test_folders_of_assistants(tmp_path: Path) -> None:
    for name in ("b", "a"):
        made(tmp_path / name)
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes.txt").touch()
    assert [one.name for one in load_assistants(tmp_path)] == ["a", "b"]
    made(tmp_path / "c", assistant_yml="name: a")
    with pytest.raises(ConfigError, match="another assistant is called 'a'"):
        load_assistants(tmp_path)
    with pytest.raises(ConfigError, match=r"has no assistant\.yml"):
        Assistant.load(tmp_path)


def test_published_schemas_are_those_that_hold() -> None:
    reference = Path(__file__).parents[2] / "docs" / "reference"
    for name, schema in SCHEMAS.items():
        found = json.loads((reference / f"{name}.schema.json").read_text())
        assert found["properties"] == schema["properties"]
