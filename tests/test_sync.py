"""The blocking mirror: that it is one, that it works like the async classes, and what its portal promises."""

import asyncio
import importlib.util
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import paddock
from paddock import Call, ConfigError, Local, Memory
from paddock.audit import Events as AsyncEvents
from paddock.errors import (
    ClosedError,
    CommandFailedError,
    ExecTimeoutError,
    NotFoundError,
    OutsideError,
    ReadOnlyError,
    UnsupportedError,
)
from paddock.sandbox import Watch as AsyncWatch
from paddock.sync import Process, Sandbox, generated

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "scripts" / "generate_sync.py"
PAIRS = [
    (paddock.Sandbox, Sandbox),
    (paddock.Process, Process),
    (paddock.ChangeSet, generated.ChangeSet),
    (paddock.Git, generated.Git),
    (paddock.Manager, generated.Manager),
    (paddock.Lease, generated.Lease),
    (paddock.Gateway, generated.Gateway),
    (paddock.Attachment, generated.Attachment),
    (AsyncWatch, generated.Watch),
    (AsyncEvents, generated.Events),
]
TWINS = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__anext__": "__next__",
    "__aiter__": "__iter__",
}
PRELUDE = """
import asyncio, logging, os, signal, sys, threading, time
from paddock import Memory
from paddock.sync import Sandbox
logging.getLogger("asyncio").setLevel(logging.ERROR)  # on a busy machine everything takes long, and it would say so
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it

async def sleeper(call):
    print("started", flush=True)
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise

commands = {"sleeper": sleeper, "echo": lambda call: " ".join(call.argv[1:])}
"""


async def count(call: Call) -> int:
    for number in range(int(call.argv[1])):
        call.print(number)
        await asyncio.sleep(0)
    return 3


async def forever(call: Call) -> None:
    call.print("ready")
    await asyncio.sleep(100)


def shout(call: Call) -> bytes:
    return call.stdin.read().upper()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PADDOCK_AUDIT", "off")


@pytest.fixture
def sb() -> Iterator[Sandbox]:
    with Sandbox.create(Memory(commands={"count": count, "forever": forever, "shout": shout})) as sandbox:
        yield sandbox


def script(text: str) -> "subprocess.Popen[str]":
    """A Python of its own, where every warning is an error and the development mode looks for more of them."""
    return subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", PRELUDE + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: "subprocess.Popen[str]") -> list[str]:
    try:
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, errors) == (0, ""), errors
    return out.splitlines()


# The mirror


ASYNC_ONLY = {"serve", "direct"}


def public(cls: type) -> Iterator[tuple[str, Any]]:
    """What a user of an async class calls; of a stream, only what is async."""
    stream = hasattr(cls, "__anext__")
    for name, member in vars(cls).items():
        plain = not isinstance(member, property) and not inspect.iscoroutinefunction(member)
        if name in TWINS or not (name in ASYNC_ONLY or name.startswith("_") or (stream and plain)):
            yield name, member


MEMBERS = [
    pytest.param(member, twin, TWINS.get(name, name), id=f"{twin.__name__}.{name}")
    for original, twin in PAIRS
    for name, member in public(original)
]


@pytest.mark.parametrize(("member", "twin", "name"), MEMBERS)
def test_every_public_name_has_its_twin(member: Any, twin: type, name: str) -> None:
    assert isinstance(vars(twin)[name], property) == isinstance(member, property)
    if isinstance(member, property):
        return
    theirs = inspect.signature(getattr(member, "__func__", member)).parameters
    ours = inspect.signature(getattr(vars(twin)[name], "__func__", vars(twin)[name])).parameters
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]
    others = {"exec": "stdin", "attach": "sandbox"}  # for which something else is taken, or the twin of it
    assert all(ours[n].annotation == theirs[n].annotation for n in ours if n != others.get(name))
    assert not inspect.iscoroutinefunction(vars(twin)[name])


def test_the_twins_have_no_other_names() -> None:
    for original, twin in PAIRS:
        expected = {TWINS.get(name, name) for name, _ in public(original)}
        assert {name for name in vars(twin) if not name.startswith("_")} == {n for n in expected if n[0] != "_"}


def test_the_package_exports_all() -> None:
    import paddock.sync

    assert paddock.sync.__all__ == sorted(paddock.sync.__all__)
    classes = {
        name for name, one in vars(generated).items() if isinstance(one, type) and one.__module__ == generated.__name__
    }
    assert set(paddock.sync.__all__) == classes - {"Events", "Watch"}


def test_generated_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, GENERATOR, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_sync", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_check_tells_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = generator()
    monkeypatch.setattr(module, "TARGET", tmp_path / "generated.py")
    monkeypatch.setattr(sys, "argv", ["generate_sync.py", "--check"])
    assert module.main() == 1
    assert "python scripts/generate_sync.py" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["generate_sync.py"])
    assert module.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate_sync.py", "--check"])
    assert module.main() == 0


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        ("async def find(self) -> 'list[Thing]': ...", "cannot be wrapped yet"),
        ("async def join(self, others: 'list[Thing]') -> None: ...", "takes a list"),
        ("async def go(self) -> Missing: ...", "does not import Missing"),
        ("async def go(self): ...", "no return type"),
        ("async def go(self) -> None:\n        '''Await it.'''\n        await x", "words of its own"),
        ("@staticmethod\n    def go() -> None: ...", "decorators"),
    ],
)
def test_what_no_rule_covers_is_refused(
    method: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = generator()
    monkeypatch.setattr(module, "SOURCE", tmp_path)
    monkeypatch.setattr(module, "CLASSES", (("thing", "Thing", "paddock.Thing"),))
    monkeypatch.setattr(module, "NAMES", {"Thing"})
    (tmp_path / "thing.py").write_text(f"class Thing:\n    {method}\n".replace("Await it", "await it"))
    with pytest.raises(module.Uncovered, match=complaint):
        module.generate()


# Files and commands


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_files(backend: str, tmp_path: Path) -> None:
    with Sandbox.create(backend) as sb:
        sb.write("a/b.txt", "grün\n")
        assert sb.read("a/b.txt") == "grün\n"
        assert sb.read_bytes("a/b.txt", offset=1, limit=1) == b"r"
        sb.write_files({"c": b"1", "d": "2"})
        assert sb.list() == ["a", "c", "d"]
        assert [info.name for info in sb.scan()] == ["a", "c", "d"]
        assert sb.stat("a").is_dir
        sb.move("c", "e")
        sb.copy("e", "f")
        sb.delete("d")
        assert (sb.exists("c"), sb.exists("f")) == (False, True)
        assert sb.glob("**/*.txt") == ["/workspace/a/b.txt"]
        assert [match.line for match in sb.grep("grün")] == [1]
        large = os.urandom(1 << 20)  # read and written by a thread, and so the call has to wait
        sb.write("large", large)
        assert sb.read_bytes("large") == large
        sb.upload(GENERATOR, "g.py")
        assert Path(sb.download("g.py", tmp_path / "g.py")).read_text() == GENERATOR.read_text()
        sb.set_workdir("a")
        assert (sb.workdir, sb.list()) == ("/workspace/a", ["b.txt"])


@pytest.mark.parametrize("with_", [True, False])
def test_closing(with_: bool) -> None:
    sb = Sandbox.create("memory")
    if with_:
        with sb:
            sb.write("a", "b")
    else:
        sb.close()
    sb.close()
    with pytest.raises(ClosedError):
        sb.read("a")


def test_what_it_is(sb: Sandbox) -> None:
    assert sb.backend == "memory"
    assert repr(sb) == f"<Sandbox {sb.id} on memory>"
    with Sandbox.create("local") as local:
        local.write("a", "b")
        assert Path(local.resolve("a")).read_text() == "b"


def test_exec(sb: Sandbox) -> None:
    result = sb.exec(["count", "2"])
    assert (result.exit_code, result.stdout) == (3, "0\n1\n")
    assert sb.exec("nothing").exit_code == 127


def test_exec_on_this_host() -> None:
    with Sandbox.create("local") as sb:
        if not Local.capabilities.commands:
            with pytest.raises(UnsupportedError):
                sb.exec("true")
            return
        assert sb.exec("echo hi; exit 3", stdin=b"").stdout == "hi\n"
        with sb.start(["cat"], stdin=True) as process:
            process.write("text")
            process.close_stdin()
            assert b"".join(chunk.data for chunk in process) == b"text"


async def words() -> Any:
    yield b"a"
    yield b"b"


@pytest.mark.parametrize("stdin", ["ab", b"ab", words, lambda: [b"a", b"b"], lambda: iter([b"a", b"b"])])
def test_stdin(sb: Sandbox, stdin: Any) -> None:
    assert sb.exec(["shout"], stdin=stdin() if callable(stdin) else stdin).stdout == "AB"


class Impossible(dict[str, str | bytes]):
    def items(self) -> Any:
        return 1 // 0


def test_errors_are_the_same(sb: Sandbox) -> None:
    with pytest.raises(NotFoundError) as caught:
        sb.read("missing")
    assert caught.value.path == "/workspace/missing"
    with pytest.raises(OutsideError):
        sb.write("/etc/passwd", "")
    with pytest.raises(CommandFailedError) as failed:
        sb.exec(["count", "1"], check=True)
    assert failed.value.result.stdout == "0\n"
    with pytest.raises(ExecTimeoutError):
        sb.exec(["forever"], timeout=0.01)
    with pytest.raises(ZeroDivisionError):
        sb.write_files(Impossible())


def test_views_within_views(sb: Sandbox) -> None:
    sb.write_files({"a/b/c": "1", "a/d": "2", "e": "3"})
    outer = sb.restrict("a", read_only=False)
    inner = outer.restrict("a/b")
    assert isinstance(inner, Sandbox)
    outer.write("a/d", "4")
    assert inner.read("a/b/c") == "1"
    for view, path in ((inner, "a/d"), (outer, "e")):
        with pytest.raises(OutsideError):
            view.read(path)
    with pytest.raises(ReadOnlyError):
        inner.write("a/b/c", "5")
    outer.close()
    with pytest.raises(ClosedError):
        inner.read("a/b/c")
    assert sb.read("a/d") == "4"


# Streams


def test_output_as_it_comes(sb: Sandbox) -> None:
    with sb.start(["count", "50"]) as process:
        assert b"".join(chunk.data for chunk in process) == b"".join(b"%d\n" % n for n in range(50))
        assert process.wait().exit_code == process.exit_code == 3


def test_a_process_is_killed_at_the_end_of_the_block(sb: Sandbox) -> None:
    with sb.start(["forever"]) as process:
        for chunk in process:
            assert chunk.text == "ready\n"
            break
        assert [info.pid for info in sb.processes()] == [process.pid]
        assert sb.process(process.pid).exit_code is None
    assert process.exit_code == 137


def test_writing_to_a_process(sb: Sandbox) -> None:
    process = sb.start(["shout"], stdin=True)
    process.write("one ")
    process.write(b"two")
    process.close_stdin()
    assert process.wait().stdout == "ONE TWO"


def test_events_from_any_thread(sb: Sandbox) -> None:
    with sb.events() as events:
        view = sb.restrict("/")
        assert next(events).operation == "restrict"
        calls: list[Callable[[], object]] = [lambda: sb.exists("a"), lambda: view.restrict("/"), lambda: sb.glob("*")]
        for call, name in zip(calls, ["exists", "restrict", "glob"], strict=True):
            thread = threading.Timer(0.01, call)  # by then this thread waits for the event
            thread.start()
            assert next(events).operation == name
            thread.join()
    assert list(events) == []


def test_events_end_with_the_sandbox() -> None:
    with Sandbox.create("memory") as sb:
        events = sb.events()
        sb.write("a", "b")
    assert [event.operation for event in events] == ["write", "close"]


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_watch(backend: str) -> None:
    with Sandbox.create(backend) as sb:
        with sb.watch() as watch:
            sb.write("new", "x")
            event = next(watch)
            assert (event.kind, event.path) == ("created", "/workspace/new")
        assert list(watch) == []


# The portal


def test_importing_starts_nothing() -> None:
    text = "import sys, threading, paddock.sync\nprint('asyncio' in sys.modules, threading.active_count())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False 1\n"


def test_a_running_loop_is_not_blocked(sb: Sandbox) -> None:
    sb.write("a", "b")
    process = sb.start(["forever"])
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: Sandbox.create("memory"), "await paddock.Sandbox.create(...)"),
        (lambda: sb.read("a"), "await paddock.Sandbox.read(...)"),
        (lambda: sb.exec("count 1"), "await paddock.Sandbox.exec(...)"),
        (lambda: next(iter(process)), "async for ... in paddock.Process"),
        (lambda: next(sb.events()), "async for ... in paddock.audit.Events"),
        (sb.close, "await paddock.Sandbox.close(...)"),
    ]

    async def inside() -> None:
        for call, instead in calls:
            with pytest.raises(ConfigError) as caught:
                call()
            assert f"`{instead}`" in str(caught.value)
        assert sb.restrict("/").id == sb.id  # this waits for nothing

    asyncio.run(inside())
    assert sb.read("a") == "b"


def test_calls_from_commands() -> None:
    """A plain function runs in a thread, where it may block; an async one runs on the loop it would block."""
    box: list[Sandbox] = []

    async def inside(call: Call) -> str:
        assert box[0].restrict("/").id == box[0].id
        try:
            return box[0].read("a")
        except ConfigError as error:
            return error.code

    def beside(call: Call) -> str:
        return box[0].read("a")

    with Sandbox.create(Memory(commands={"inside": inside, "beside": beside})) as sb:
        box.append(sb)
        sb.write("a", "text")
        assert sb.exec("inside").stdout == "INVALID_CONFIG"
        assert sb.exec("beside").stdout == "text"


def test_a_command_that_exits_does_not_end_the_portal() -> None:
    async def leave() -> None:
        raise SystemExit(7)

    from paddock.sync.portal import portal

    with pytest.raises(SystemExit):
        portal().run(leave, "")
    assert portal().run(lambda: asyncio.sleep(0, 1), "") == 1


def test_many_threads(sb: Sandbox) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            start.wait()
            for turn in range(100):
                sb.write(f"{number}/{turn % 7}", f"{turn}")
                assert sb.read(f"{number}/{turn % 7}") == f"{turn}"
                if turn % 20 == 0:
                    assert sb.exec(["shout"], stdin=f"x{number}").stdout == f"X{number}"
                    assert len(sb.glob(f"{number}/*")) == min(turn + 1, 7)
        except BaseException as error:  # noqa: BLE001 - shown by the thread that can
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with sb.events() as events:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        sb.exists("last")
        seen = [next(events).operation for _ in range(8 * (100 * 2 + 5 * 2) + 1)]
    assert (seen.count("write"), seen.count("exec"), seen[-1]) == (800, 40, "exists")


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit")])
def test_interrupting_a_command_cancels_it(number: signal.Signals, raised: str) -> None:
    process = script("""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
with Sandbox.create(Memory(commands=commands)) as sb:
    try:
        sb.exec(["sleeper"])
    except BaseException as error:
        print(type(error).__name__, sb.processes(), flush=True)
    print(sb.exec(["echo", "alive"]).stdout)
""")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(number)
    assert sorted(finished(process)) == sorted(["cancelled", f"{raised} []", "alive"])


def test_interrupting_file_calls_breaks_nothing() -> None:
    """Each interrupt comes at another moment of a call; a listener in another thread misses none of the calls."""
    process = script("""
import _thread
TIMES, ready, done, seen = 200, False, 0, []

def bother():
    global ready
    for number in range(TIMES):
        while not ready:
            time.sleep(0.0001)
        ready = False
        time.sleep(number * 1e-6)
        _thread.interrupt_main()

with Sandbox.create("local") as sb:
    events = sb.events()
    listener = threading.Thread(target=lambda: seen.extend(event.operation for event in events))
    listener.start()
    threading.Thread(target=bother).start()
    calls = interrupts = 0
    while interrupts < TIMES:
        try:
            ready = True
            while True:
                sb.write("a", "text")
        except KeyboardInterrupt:
            interrupts += 1
    print(sb.read("a"), os.listdir(sb.resolve(".")))
listener.join()
print(seen[-3:], set(seen[:-3]))
""")
    assert finished(process) == ["text ['a']", "['read', 'resolve', 'close'] {'write'}"]


def test_leaving_everything_open_at_exit() -> None:
    assert finished(
        script("""
sb = Sandbox.create(Memory(commands=commands))
local = Sandbox.create("local")
process = sb.start(["sleeper"])
watch = local.watch()
watch.__enter__()
threading.Thread(target=lambda: list(sb.events()), daemon=True).start()
threading.Thread(target=process.wait, daemon=True).start()
chunks = iter(sb.start(["sleeper"]))
threading.Thread(target=next, args=(chunks, None), daemon=True).start()
sb.write("a", "b")
while len(sb.processes()) < 2:
    time.sleep(0.001)
""")
    ) == ["started", "started", "cancelled", "cancelled"]


def test_closing_at_exit() -> None:
    assert finished(
        script("""
import atexit
sb = Sandbox.create(Memory(commands=commands))
local = Sandbox.create("local")
private = local.resolve("/workspace")
atexit.register(lambda: print(os.path.exists(private)))
atexit.register(local.close)
atexit.register(sb.close)
""")
    ) == ["False"]


def test_a_call_after_the_end_is_refused() -> None:
    assert finished(
        script("""
import atexit
def late():
    try:
        sb.read("a")
    except Exception as error:
        print(type(error).__name__)
atexit.register(late)
sb = Sandbox.create("memory")
""")
    ) == ["ClosedError"]


def test_a_forked_child_has_a_portal_of_its_own() -> None:
    lines = finished(
        script("""
sb = Sandbox.create(Memory(commands=commands))
sb.write("a", "parent's")
sb.glob("*")  # by a thread that the child does not have
child = os.fork()
if not child:
    print(sb.read("a"), flush=True)
    with Sandbox.create(Memory(commands=commands)) as own:
        print(own.exec(["echo", "child"]).stdout, own.glob("*"), flush=True)
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sb.exec(["echo", "parent"]).stdout)
sb.close()
""")
    )
    assert lines == ["parent's", "child []", "0", "parent"]
