"""A Python that keeps its state: both kernels alike, ends of every kind, and what is inside says what it likes."""

import asyncio
import math
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
import pytest_asyncio

from engines.backends import contained
from paddock import (
    Chunk,
    ClosedError,
    ConfigError,
    ExecTimeoutError,
    Mount,
    Namespaces,
    PythonSession,
    RichOutput,
    Sandbox,
    UnavailableError,
)
from paddock.tools.python import reading
from paddock.tools.python import session as python_session
from paddock.tools.python.program import program
from paddock.tools.python.reading import Messages, Run

SITE = next(path for path in sys.path if path.endswith("site-packages"))
STUBBORN = """
import time
open('/tmp/stubborn', 'w').close()
while True:
    try:
        time.sleep(0.05)
    except BaseException:
        pass
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """One sandbox for all, in which the packages of these tests can be seen."""
    patch = pytest.MonkeyPatch()
    patch.setenv("PADDOCK_STATE", str(tmp_path_factory.mktemp("state")))
    async with Sandbox.create(Namespaces(), mounts=[Mount(SITE, "/site")]) as sb:
        yield sb
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["builtin", "jupyter"])
async def session(place: Sandbox, request: pytest.FixtureRequest) -> AsyncIterator[PythonSession]:
    async with PythonSession(place, kernel=request.param, env={"PYTHONPATH": "/site"}) as one:
        yield one


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_it_keeps_its_state(session: PythonSession) -> None:
    assert (await session.run("import math\nx = 41")).text is None
    result = await session.run("x += 1\nprint('hi')\nx")
    assert (result.text, result.stdout, result.error, result.success) == ("42", "hi\n", None, True)
    assert (await session.run("def f():\n    return x\n\nclass A: pass")).success
    assert (await session.run("f(), math.pi > 3, A.__module__")).text == "(42, True, '__main__')"
    assert (await session.run("_ = 5; None")).text is None
    assert (await session.run("")).success
    assert session.kernel in ("builtin", "jupyter")


async def test_what_it_prints(session: PythonSession) -> None:
    """Also what child processes print, and each stream by itself; characters stay whole."""
    result = await session.run(
        "import os, subprocess, sys\nprint('é' * 3)\nprint('bad', file=sys.stderr)\n"
        "sys.stdout.flush()\nsubprocess.run(['echo', 'child'])\nos.system('echo again')\nNone"
    )
    assert result.stdout == "ééé\nchild\nagain\n"
    assert result.stderr == "bad\n"


async def test_what_it_raises_is_a_result(session: PythonSession) -> None:
    result = await session.run("def f():\n    return 1 / 0\n\nprint('before')\nf()")
    assert result.error is not None
    assert (result.error.name, result.error.message, result.stdout) == (
        "ZeroDivisionError",
        "division by zero",
        "before\n",
    )
    assert "return 1 / 0" in result.error.traceback
    assert "paddock" not in result.error.traceback
    assert "\x1b" not in result.error.traceback
    for code, name in (("def", "SyntaxError"), ("x = '\ud800'", "UnicodeEncodeError")):
        wrong = await session.run(code)
        assert wrong.error is not None
        assert wrong.error.name == name
    leaving = await session.run("import sys; sys.exit(3)")
    assert session.kernel == "jupyter" or (leaving.error is not None and leaving.error.name == "SystemExit")
    assert (await session.run("1 + 1")).text == "2"


async def test_a_group_of_exceptions(session: PythonSession) -> None:
    """Jupyter only prints it, and other things too, though it knows that they are errors."""
    result = await session.run("raise ExceptionGroup('both', [ValueError(1), KeyError(2)])")
    assert result.error is not None
    assert (result.error.name, result.error.message) == ("ExceptionGroup", "both (2 sub-exceptions)")
    assert "ValueError: 1" in result.stderr + result.error.traceback
    if session.kernel == "jupyter":
        wrong = await session.run("%no_such_magic")
        assert wrong.error is not None
        assert wrong.error.name == "UsageError"
    assert (await session.run("1 + 1")).error is None


async def test_an_exception_that_ends_whoever_looks_at_it(session: PythonSession) -> None:
    """It is told like any other, and the interpreter goes on."""
    await session.run("kept = 1\nclass Odd(Exception):\n    def __str__(self): raise SystemExit(3)")
    result = await session.run("raise Odd")
    assert session.kernel == "jupyter" or (result.error is not None and result.error.name == "Odd")
    if session.kernel == "builtin":
        assert (await session.run("kept")).text == "1"


async def test_awaiting_where_it_stands(session: PythonSession) -> None:
    code = (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 'late'\n\ny = await f()\nawait f()"
    )
    assert (await session.run(code)).text == "'late'"
    assert (await session.run("y")).text == "'late'"
    assert (await session.run("[await f() for _ in range(2)]")).text == "['late', 'late']"


RICH = """
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_png_(self): return b"\\x89PNG"
    def _repr_svg_(self): return "<svg/>"
    def _repr_markdown_(self): return "# md"
    def _repr_json_(self): return {"a": 1}

display(Rich())
Rich()
"""


async def test_rich_results(session: PythonSession) -> None:
    result = await session.run(RICH)
    assert result.error is None, result.error.traceback
    shown, last = result.outputs
    assert shown == last
    assert (last.text, last.html, last.png, last.svg) == ("plain", "<b>html</b>", b"\x89PNG", "<svg/>")
    assert (last.markdown, last.json, last.jpeg) == ("# md", '{"a": 1}', None)
    assert result.text == "plain"
    assert (await session.run("Rich")).text is not None  # the class itself, which has no values to show


@pytest.mark.timeout(240)
async def test_figures(session: PythonSession) -> None:
    """What was drawn is shown once. In a Jupyter kernel that is its own doing, and takes a while."""
    result = await session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); None", timeout=200)
    assert result.error is None, result.error.traceback
    assert [(output.png or b"")[:4] for output in result.outputs] == [b"\x89PNG"]
    assert (await session.run("3")).outputs == (RichOutput({"text/plain": "3"}),)


async def test_output_as_it_comes(session: PythonSession) -> None:
    heard: asyncio.Queue[Chunk | RichOutput] = asyncio.Queue()
    code = "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('/tmp/go'):\n    time.sleep(0.02)\n7"
    run = asyncio.create_task(session.run(code, on_output=heard.put_nowait))
    async with asyncio.timeout(60):
        first = await heard.get()
        assert isinstance(first, Chunk)
        assert (first.stream, first.text.strip()) == ("stdout", "first")
        assert not run.done()
        await session._sandbox.write("/tmp/go", "")
        assert (await run).text == "7"
    await session._sandbox.delete("/tmp/go")


async def test_interrupted(session: PythonSession) -> None:
    await session.run("kept = 1\nimport time")
    run = asyncio.create_task(session.run("while True: time.sleep(0.05)"))
    async with asyncio.timeout(60):
        while session._running is None:
            await asyncio.sleep(0.01)
        await session.interrupt()
        result = await run
    assert result.error is not None
    assert result.error.name == "KeyboardInterrupt"
    await session.interrupt()  # nothing runs
    assert (await session.run("kept")).text == "1"


async def test_out_of_time(session: PythonSession) -> None:
    """It is interrupted, and its state is kept; also if it awaits."""
    await session.run("import asyncio, time\nkept = 2")
    for code in ("print('so far', flush=True)\ntime.sleep(60)", "await asyncio.sleep(60)"):
        with pytest.raises(ExecTimeoutError, match="its state is kept") as caught:
            await session.run(code, timeout=0.5)
    assert caught.value.result.error is not None
    assert (await session.run("kept", timeout=math.inf)).text == "2"


async def test_one_run_at_a_time(session: PythonSession) -> None:
    await session.run("seen = []")
    await asyncio.gather(
        *(session.run(f"seen.append({n}); import time; time.sleep(0.01); seen.append({n})") for n in range(5))
    )
    assert (await session.run("seen")).text == str([n for n in range(5) for _ in range(2)])


async def test_nothing_of_it_in_the_workspace(session: PythonSession) -> None:
    await session.run("1")
    assert await session._sandbox.list("/workspace") == []


@pytest_asyncio.fixture(loop_scope="module")
async def own(place: Sandbox) -> AsyncIterator[PythonSession]:
    """One that a test may break."""
    async with PythonSession(place, kernel="builtin") as one:
        yield one


async def test_it_forgets(own: PythonSession, place: Sandbox) -> None:
    await own.run("x = 1; import subprocess; p = subprocess.Popen(['sleep', '4321'])")
    await own.reset()
    gone = await own.run("x")
    assert gone.error is not None
    assert gone.error.name == "NameError"
    assert "4321" not in (await place.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout


async def test_what_does_not_mind_being_interrupted(
    own: PythonSession, place: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_session, "_PATIENCE", (0.3, 0.3))
    with pytest.raises(ExecTimeoutError, match="its state is lost"):
        await own.run(STUBBORN, timeout=0.5)
    assert (await own.run("1")).text == "1"
    run = asyncio.create_task(own.run(STUBBORN))
    await place.delete("/tmp/stubborn")
    async with asyncio.timeout(60):
        while not await place.exists("/tmp/stubborn"):
            await asyncio.sleep(0.01)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert (await own.run("2")).text == "2"


async def test_cancelled_and_going_on(own: PythonSession) -> None:
    """Whoever is cancelled has interrupted the code; the next one gets none of its output."""
    await own.run("import time; kept = 3")
    heard: asyncio.Queue[Any] = asyncio.Queue()
    run = asyncio.create_task(own.run("print('a', flush=True)\ntime.sleep(60)", on_output=heard.put_nowait))
    await heard.get()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = await own.run("print('b')\nkept")
    assert (result.text, result.stdout) == ("3", "b\n")


async def test_a_listener_that_fails(own: PythonSession) -> None:
    def broken(output: object) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError):
        await own.run("print(1)\nprint(2)", on_output=broken)
    assert (await own.run("print(3)")).stdout == "3\n"


async def test_a_listener_that_fails_when_time_is_up(own: PythonSession) -> None:
    """What was said until it was stopped is of that run, and no part of the next one's."""
    code = "import time\ntry:\n    time.sleep(100)\nfinally:\n    print('late')"

    def broken(output: object) -> None:
        raise ZeroDivisionError

    await own.run("kept = 1")
    with pytest.raises(ZeroDivisionError):
        await own.run(code, timeout=1, on_output=broken)
    result = await own.run("print('next')\nkept")
    assert (result.stdout, result.text) == ("next\n", "1")


async def test_its_output_goes_elsewhere_for_good(own: PythonSession) -> None:
    """Code that puts a file in the place of a stream is nobody's but its own, and the session goes on."""
    await own.run(
        "import os\nfile = os.open('/tmp/elsewhere', os.O_CREAT | os.O_WRONLY)\nos.dup2(file, 1)\nos.dup2(file, 2)"
    )
    result = await own.run("print('there')\n6 * 7", timeout=30)
    assert (result.text, result.stdout) == ("42", "")
    assert (await own.run("open('/tmp/elsewhere').read()", timeout=30)).text == "'there\\n'"


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"])
async def test_an_interpreter_that_ends(own: PythonSession, code: str) -> None:
    result = await own.run(f"print('last', flush=True)\nimport time; time.sleep(0.2)\n{code}")
    assert result.error is not None
    assert (result.error.name, result.stdout) == ("InterpreterEnded", "last\n")
    assert (await own.run("4")).text == "4"


async def test_a_child_that_comes_back(own: PythonSession) -> None:
    result = await own.run(
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')"
    )
    assert sorted(result.stdout.split()) == ["child", "parent"]
    assert (await own.run("5")).text == "5"


async def test_an_end_that_is_not_its_own(own: PythonSession) -> None:
    """Code that says that it is done is heard until it is, and nobody after it is told what it said."""
    forged = b'{"t": "done"}\n'
    tried = f"    try:\n        os.write(fd, {forged!r})\n    except OSError:\n        pass\n"
    code = f"import os, time\nfor fd in range(3, 20):\n{tried}time.sleep(0.3)\n'first'"
    assert (await own.run(code)).text == "'first'"
    assert (await own.run("'second'")).text == "'second'"


FORGED = [
    b"not json\n",
    b"[" * 100_000 + b"\n",
    b'{"t": "stream", "name": 5, "text": {}}\n{"t": "display", "data": [1]}\n{"t": "display", "data": {"a": 1}}\n'
    b'{"t": "error"}\n{"t": "unknown"}\n{"t": "ready"}\n{"t": "stream", "text": "\\ud800"}\n' + b'{"t": "done"}\n' * 3,
]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
async def test_what_is_inside_says_what_it_likes(own: PythonSession, forged: bytes) -> None:
    """The code finds our own descriptor and writes to it. It harms its own session at most, which then begins anew."""
    code = (
        "import os, time\n"
        f"for fd in range(3, 20):\n    try:\n        os.write(fd, {forged!r})\n    except OSError:\n        pass\n"
    )
    await own.run("x = 1")
    await own.run(code)
    await own.reset()
    assert (await own.run("6")).text == "6"


async def test_a_line_without_end(own: PythonSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 100_000)
    flood = "    try:\n        while True: os.write(fd, b'x' * 65536)\n    except OSError: pass"
    result = await own.run(f"import os\nfor fd in range(3, 20):\n{flood}")
    assert result.error is not None
    assert result.error.name == "InterpreterEnded"


async def test_output_is_bounded(place: Sandbox) -> None:
    async with PythonSession(place, kernel="builtin", max_output=1000) as one:
        much = await one.run("print('x' * 3_000_000)\nprint('y')")
        assert (len(much.stdout), much.truncated) == (1000, True)
        assert not (await one.run("print('x' * 900)")).truncated
        large = await one.run("class L:\n    def _repr_html_(self): return 'x' * 9_000_000\nL()")
        assert (large.outputs, large.truncated) == ((), True)
        many = await one.run("for n in range(200): display(n)")
        assert (len(many.outputs), many.truncated) == (reading.MOST_OUTPUTS, True)
        assert len((await one.run("'z' * 1_000_000")).text or "") < 110_000


async def test_sums_are_bounded() -> None:
    run = Run(10, None)
    for _ in range(5):
        run.take(reading.Message("display", {"data": {"text/html": "x" * (10 << 20)}}))
    result = run.result(0.0)
    assert (len(result.outputs), result.truncated) == (3, True)


async def test_lines_in_pieces() -> None:
    async def pieces() -> AsyncIterator[Chunk]:
        data = b'{"t": "a"}\n{"t": "b"}\n\xff\n{"t": "c"}\n'
        for start in range(0, len(data), 3):
            yield Chunk("stdout", data[start : start + 3])
            yield Chunk("stderr", b"noise\n")

    messages = Messages(pieces())
    kinds = [message.kind async for message in _all(messages)]
    assert (kinds, messages.ended) == (["a", "b"], True)


async def _all(messages: Messages) -> AsyncIterator[reading.Message]:
    while (message := await messages.next()) is not None:
        yield message


async def test_without_python(place: Sandbox) -> None:
    async with Sandbox.create("memory") as sb, PythonSession(sb) as one:
        with pytest.raises(UnavailableError, match="command not found"):
            await one.run("1")
    async with PythonSession(place, python="/no/python") as other:
        with pytest.raises((UnavailableError, FileNotFoundError)):
            await other.run("1")
    async with PythonSession(place, kernel="jupyter") as third:  # without its packages
        with pytest.raises(UnavailableError, match="There is no Jupyter") as raised:
            await third.run("1")
        assert raised.value.hint.endswith("""jupyter_client in the sandbox's Python, or use kernel="builtin".""")


async def test_which_one_it_is(place: Sandbox) -> None:
    async with PythonSession(place) as plain:
        await plain.run("1")
        assert plain.kernel == "builtin"
    wrong: list[dict[str, Any]] = [{"kernel": "other"}, {"timeout": 0}, {"max_output": 0}, {"python": 5}, {"env": 5}]
    for given in wrong:
        with pytest.raises(ConfigError):
            PythonSession(place, **given)


async def test_closed(place: Sandbox) -> None:
    one = PythonSession(place, kernel="builtin")
    running = asyncio.create_task(one.run("import time; time.sleep(60)"))
    async with asyncio.timeout(60):
        while one._running is None:
            await asyncio.sleep(0.01)
        await one.close()
        assert (await running).error is not None
    await one.close()
    with pytest.raises(ClosedError):
        await one.run("1")


async def test_the_program_is_plain() -> None:
    """It needs nothing of ours inside, and no new syntax."""
    text = program().split(b"\n", 1)[1].decode()
    assert "from paddock" not in text
    compile(text, "inside", "exec")


async def test_in_a_container(request: pytest.FixtureRequest) -> None:
    async with Sandbox.create(contained(request, "docker")) as sb, PythonSession(sb) as one:
        assert (await one.run("x = 1\nprint('in')\nx")).text == "1"
        with pytest.raises(ExecTimeoutError):
            await one.run("import time; time.sleep(60)", timeout=0.5)
        assert (await one.run("x")).text == "1"


async def test_ended_while_it_starts(place: Sandbox) -> None:
    """Whoever closes or resets a session waits for no code that has not even begun."""
    for end in (PythonSession.reset, PythonSession.close):
        session = PythonSession(place, kernel="builtin")
        run = asyncio.create_task(session.run("while True: pass", timeout=math.inf))
        while not session._turn.locked():
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await end(session)
            error = (await run).error
        assert error is not None
        assert error.name == "InterpreterEnded"
        await session.close()


async def test_an_interrupt_of_what_never_says_that_it_has_begun(place: Sandbox) -> None:
    async with PythonSession(place, kernel="builtin") as session:
        await session.run(
            "import gc, time\n(one,) = [o for o in gc.get_objects() if type(o).__name__ == 'Interpreter']"
        )
        await session.run("say = one._say\none._say = lambda kind, **said: kind == 'begun' or say(kind, **said)")
        run = asyncio.create_task(session.run("time.sleep(0.5)\n5"))
        while session._running is None:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            await session.interrupt()
        assert (await run).text == "5"


async def test_text_that_no_text_can_hold(place: Sandbox) -> None:
    async with PythonSession(place, kernel="builtin") as session:
        result = await session.run("class Odd:\n    def __repr__(self): return 'a\\ud800'\nOdd()")
        assert (result.text, result.outputs[0].text) == ("a?", "a?")


@pytest.mark.parametrize("kernel", ["builtin", "jupyter"])
async def test_files_of_the_workspace_are_not_taken_for_its_modules(kernel: Literal["builtin", "jupyter"]) -> None:
    """Nor for those of a kernel's client, which it imports later."""
    names = ("queue", "types", "json", "ast", "asyncio", "threading", "codecs", "uuid", "secrets", "zmq", "ipykernel")
    async with (
        Sandbox.create(Namespaces(), mounts=[Mount(SITE, "/site")]) as sb,
        PythonSession(sb, kernel=kernel, env={"PYTHONPATH": "/site"}) as session,
    ):
        await sb.write_files(
            {f"{name}.py": "raise RuntimeError('the wrong one')" for name in names} | {"mine.py": "x = 7"}
        )
        result = await session.run("import mine; mine.x")
        assert (result.error, result.text) == (None, "7")


async def test_a_line_of_very_many_values_is_none() -> None:
    assert reading._message(b'{"t": "x", "a": [' + b"1," * 500_000 + b"1]}") is None
    assert reading._message(b'{"t": "x", "a": "' + b"1," * 500_000 + b'"}') is not None
