"""Inside: a small interpreter of our own, for sandboxes without a Jupyter kernel. It needs Python 3.8 and nothing else."""

import ast
import asyncio
import base64
import builtins
import codecs
import fcntl
import inspect
import io
import json
import linecache
import os
import select
import signal
import sys
import termios
import threading
import traceback
import types
from contextlib import suppress
from typing import Any

from paddock.tools.python.wire import Channel

AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
LONGEST = 100_000
REPRESENTATIONS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
}


class Stream:
    """One of the standard streams, read from a pipe so that child processes print there too."""

    def __init__(self, channel: Channel, name: str, number: int) -> None:
        self._channel = channel
        self._name = name
        self._end, write = os.pipe()
        os.dup2(write, number)
        os.close(write)
        os.set_blocking(self._end, False)
        self._passing = threading.Lock()
        self._ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        """Until nobody can print there any more: code may have put something else in its place."""
        while not self._ended:
            select.select([self._end], [], [])
            self._pass_on(1 << 16)

    def drain(self) -> None:
        """All that is printed by now is on its way; also what the other thread has just read."""
        waiting = bytearray(4)
        fcntl.ioctl(self._end, termios.FIONREAD, waiting)
        self._pass_on(int.from_bytes(waiting, sys.byteorder))

    def _pass_on(self, most: int) -> None:
        with self._passing:
            while most > 0 and not self._ended:
                try:
                    data = os.read(self._end, min(most, 1 << 15))
                except BlockingIOError:
                    return
                self._ended = not data
                most -= len(data)
                text = self._decoder.decode(data)
                if text:
                    self._channel.send("stream", name=self._name, text=text)


class Interpreter:
    """A module that code is run in, again and again."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._streams = [Stream(channel, "stdout", 1), Stream(channel, "stderr", 2)]
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as it runs
        self._module = types.ModuleType("__main__")
        sys.modules["__main__"] = self._module
        builtins.display = self.display  # type: ignore[attr-defined]
        self._count = 0
        self._pid = os.getpid()
        self._running = False
        self._waiting = False
        self._masked = 0
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        signal.signal(signal.SIGINT, self._interrupted)

    def serve(self) -> None:
        """One run after the other."""
        self._channel.send("ready", kernel="builtin", python=sys.version.split()[0])
        while True:
            asked = self._channel.requests.get()
            self.run(asked["code"])
            self._channel.send("done", run=asked["run"])

    def run(self, code: str) -> None:
        """All of it; what it raises is told."""
        try:
            try:
                self._running = True
                self._say("begun")
                self._execute(code)
                self._figures()
            finally:
                self._running = False
        except BaseException as error:  # noqa: BLE001 - it is the code's own
            self._tell(error)
        self._empty()
        if os.getpid() != self._pid:  # a child that it forked has come back to us
            os._exit(0)

    def _empty(self) -> None:
        """Everything that was printed is on its way."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):  # whatever was put in its place
                stream.flush()
        if os.getpid() == self._pid:  # and no child that it forked
            for pipe in self._streams:
                pipe.drain()

    def _execute(self, code: str) -> None:
        self._count += 1
        name = f"<cell {self._count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | AWAIT, True)
        last: ast.expr | None = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body.pop().value
        self._evaluate(compile(tree, name, "exec", AWAIT, True))
        if last is not None:
            value = self._evaluate(compile(ast.Expression(last), name, "eval", AWAIT, True))
            if value is not None:
                self._module.__dict__["_"] = value
                self._show("result", value)

    def _evaluate(self, code: types.CodeType) -> Any:
        found = eval(code, self._module.__dict__)  # noqa: S307 - that is what it is for
        return self._awaited(found) if code.co_flags & inspect.CO_COROUTINE else found

    def _awaited(self, waiting: Any) -> Any:
        task = self._loop.create_task(waiting)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise

    def display(self, *values: object) -> None:
        """Show values as they represent themselves."""
        for value in values:
            self._show("display", value)

    def _show(self, kind: str, value: object) -> None:
        self._say(kind, data=representations(value))

    def _say(self, kind: str, **fields: object) -> None:
        """A message from the thread that code runs in, not interrupted in the middle of it. What was printed goes first."""
        self._masked += 1
        try:
            self._empty()
            self._channel.send(kind, **fields)
        finally:
            self._masked -= 1
        if self._waiting and not self._masked:
            self._waiting = False
            raise KeyboardInterrupt

    def _figures(self) -> None:
        """What was drawn with matplotlib, as it is shown in notebooks."""
        plots = sys.modules.get("matplotlib.pyplot")
        for number in plots.get_fignums() if plots is not None else ():
            image = io.BytesIO()
            plots.figure(number).savefig(image, format="png", bbox_inches="tight")  # type: ignore[union-attr]
            data = {"image/png": base64.b64encode(image.getvalue()).decode(), "text/plain": f"<Figure {number}>"}
            self._say("display", data=data)
        if plots is not None:
            plots.close("all")

    def _interrupted(self, number: int, frame: object) -> None:
        if self._running and not self._masked:
            raise KeyboardInterrupt
        self._waiting = self._running

    def _tell(self, error: BaseException) -> None:
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        try:
            words = str(error)
        except BaseException:  # noqa: BLE001 - the code's own, too, and no reason to end
            words = ""
        text = "".join(without_own(told).format())
        self._channel.send("error", name=type(error).__name__, message=words[:LONGEST], traceback=text[-LONGEST:])


def without_own(told: traceback.TracebackException) -> traceback.TracebackException:
    """The same without our frames, in what led to it too."""
    one: traceback.TracebackException | None = told
    while one is not None:
        one.stack = traceback.StackSummary.from_list([frame for frame in one.stack if frame.filename != "<paddock>"])
        one = one.__cause__ or one.__context__
    return told


def representations(value: Any) -> dict[str, str]:
    """By media type, as text; images as base64. What fails is left out."""
    found: dict[str, str] = {}
    cls = type(value)
    if not inspect.isclass(value):
        bundle = called(value, "_repr_mimebundle_") if hasattr(cls, "_repr_mimebundle_") else None
        if isinstance(bundle, tuple):
            bundle = bundle[0]
        for media, given in bundle.items() if isinstance(bundle, dict) else ():
            found[str(media)] = as_text(given)
        for media, method in REPRESENTATIONS.items():
            given = called(value, method) if hasattr(cls, method) else None
            if given is not None:
                found[media] = as_text(given[0] if isinstance(given, tuple) else given)
    found.setdefault("text/plain", shown(value))
    return found


def called(value: Any, method: str) -> Any:
    try:
        return getattr(value, method)()
    except Exception:  # noqa: BLE001 - the value's own
        return None


def as_text(given: Any) -> str:
    if isinstance(given, bytes):
        return base64.b64encode(given).decode()
    return given if isinstance(given, str) else json.dumps(given, default=str)


def shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the value's own
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text)} characters)"


def serve_builtin(channel: Channel) -> None:
    """Until the host goes."""
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.argv = [""]
    sys.path.insert(0, "")
    Interpreter(channel).serve()
