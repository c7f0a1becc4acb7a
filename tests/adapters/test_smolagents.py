"""Code agents of smolagents with their Python in a sandbox."""

from collections.abc import Iterator
from typing import Any

import pytest
from smolagents import CodeAgent, Model, tool  # type: ignore[import-untyped]
from smolagents.models import ChatMessage, MessageRole  # type: ignore[import-untyped]
from smolagents.utils import AgentError  # type: ignore[import-untyped]

from paddock import ApprovalPolicy
from paddock import Sandbox as AsyncSandbox
from paddock.adapters.smolagents import PaddockExecutor
from paddock.errors import ConfigError
from paddock.sync import Sandbox


class Scripted(Model):  # type: ignore[misc]
    """A model that writes one piece of code after another."""

    def __init__(self, *codes: str) -> None:
        super().__init__()
        self.codes = list(codes)
        self.seen: list[str] = []

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        self.seen.append(str(messages[-1].content))
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{self.codes.pop(0)}\n</code>")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PADDOCK_STATE", str(tmp_path_factory.mktemp("module") / "state"))
        with Sandbox.create("namespaces") as made:
            yield made


@pytest.fixture
def executor(sandbox: Sandbox) -> Iterator[PaddockExecutor]:
    made = PaddockExecutor(sandbox, python="/usr/bin/python3")
    yield made
    made.cleanup()


def test_steps_share_their_variables(executor: PaddockExecutor) -> None:
    executor.send_variables({"given": {"a": [1, 2]}})
    assert executor("print(given['a'])\nkept = sum(given['a'])").logs == "[1, 2]\n"
    done = executor("kept * 2")
    assert (done.output, done.is_final_answer) == ("6", False)
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor("print('before')\n1 / 0")
    assert executor("kept").output == "3"
    for forged in ("pickle:gASVBAAAAAAAAABLAS4=", "safe:{", "safe:" + "[" * 99_000, "neither"):
        with pytest.raises(AgentError, match="cannot be read"):
            executor(f"class FinalAnswerException(Exception): pass\nraise FinalAnswerException({forged!r})")


def test_an_answer_is_not_rebuilt(executor: PaddockExecutor) -> None:
    """What an answer says that it is, it does not become: no image is decoded here, and no array made."""
    executor.send_tools({})
    forged = [
        {"__type__": "PIL.Image", "data": "iVBORw0KGgo="},
        {"__type__": "ndarray", "data": [""], "dtype": "S2000000000"},
        {"__type__": "Path", "data": "/etc/passwd"},
    ]
    for one in forged:
        done = executor(f"final_answer({one!r})")
        assert (done.output, done.is_final_answer) == (one, True)
    assert executor("final_answer([1, 'two', None, {'a': 2.5}])").output == [1, "two", None, {"a": 2.5}]


def test_the_longest_answer(executor: PaddockExecutor) -> None:
    executor.send_tools({})
    assert executor("final_answer('x' * 90_000)").output == "x" * 90_000
    with pytest.raises(AgentError, match="100000 are the most"):
        executor("final_answer('x' * 100_000)")


def test_running_out_of_time(sandbox: Sandbox) -> None:
    executor = PaddockExecutor(sandbox, python="/usr/bin/python3", timeout=1)
    with pytest.raises(AgentError, match="TIMEOUT"):
        executor("import time\ntime.sleep(100)")
    executor.cleanup()


@pytest.mark.parametrize(
    "lost", ["import os; os._exit(3)", "import signal\nsignal.signal(2, lambda *_: 0)\nwhile 1: pass"]
)
def test_an_agent_goes_on_after_its_python_is_lost(lost: str, sandbox: Sandbox) -> None:
    """What the agent had been given is there again: its tools, its variables and the way to answer."""

    @tool  # type: ignore[untyped-decorator]
    def doubled(number: int) -> int:
        """Twice a number.

        Args:
            number: any
        """
        return 2 * number

    executor = PaddockExecutor(sandbox, python="/usr/bin/python3", timeout=1)
    model = Scripted("x = doubled(given)", lost, "final_answer((doubled(given), 'x' in globals()))")
    with CodeAgent(tools=[doubled], model=model, executor=executor, max_steps=3, verbosity_level=0) as agent:
        assert agent.run("double it", additional_args={"given": 21}) == [42, False]
    assert "state is lost" in model.seen[2]


def test_an_agent_works(sandbox: Sandbox, executor: PaddockExecutor) -> None:
    @tool  # type: ignore[untyped-decorator]
    def doubled(number: int) -> int:
        """Twice a number.

        Args:
            number: any
        """
        return 2 * number

    model = Scripted(
        "open('note.txt', 'w').write('from inside')\nx = doubled(20)\nprint(x)",
        "final_answer({'x': x + 2, 'where': __import__('os').getcwd()})",
    )
    with CodeAgent(tools=[doubled], model=model, executor=executor, max_steps=3, verbosity_level=0) as agent:
        answer = agent.run("double twenty")
    assert answer == {"x": 42, "where": "/workspace"}
    assert "40" in model.seen[1]
    assert sandbox.read("note.txt") == "from inside"


def test_what_the_sandbox_blocks() -> None:
    with (
        Sandbox.create("memory", approve=ApprovalPolicy(rules={"run": "blocked"})) as sandbox,
        pytest.raises(AgentError, match="NOT_AUTHORIZED"),
    ):
        PaddockExecutor(sandbox)("1 + 1")


def test_what_is_not_there_is_not_installed(sandbox: Sandbox) -> None:
    with pytest.raises(AgentError, match="could not be installed"):
        PaddockExecutor(sandbox, ("no-such-package-anywhere",), python="/usr/bin/python3")


async def test_a_sandbox_that_does_not_block() -> None:
    async with AsyncSandbox.create("memory") as sandbox:
        with pytest.raises(ConfigError, match="sync"):
            PaddockExecutor(sandbox)  # type: ignore[arg-type]
