"""How a command of the program ends: its exit code, errors in plain words, and signals that let it put things away."""

import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import typer

from paddock.cli import stdout
from paddock.cli.wording import for_a_shell
from paddock.errors import ExecTimeoutError, SandboxError, visible
from paddock.progress import reporting

TIMED_OUT = 124
FAILED = 125
INTERRUPTED = 128 + signal.SIGINT
NOBODY_READS = 128 + signal.SIGPIPE

T = TypeVar("T")


@contextmanager
def errors_told(as_json: bool = False) -> Iterator[None]:
    """What goes wrong inside becomes a line, or an object, and an exit code."""
    try:
        yield
    except SandboxError as error:
        tell(error, as_json)
        raise typer.Exit(TIMED_OUT if isinstance(error, ExecTimeoutError) else FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise typer.Exit(NOBODY_READS) from None
    except OSError as error:  # a full disk behind standard output, or a current directory that is gone
        _forget_stdout()
        typer.echo(f"FAILED: {error.strerror or error}. Check where output goes and where you are.", err=True)
        raise typer.Exit(FAILED) from None


def tell(error: SandboxError, as_json: bool) -> None:
    """Show an error: for people on standard error, for programs on standard output."""
    error.hint = for_a_shell(error.hint)
    if as_json:
        show_json({"error": error.to_dict()})
    else:
        typer.echo(visible(error.to_llm()), err=True)


def show_json(data: dict[str, Any]) -> None:
    """One object on one line; everything but ASCII is escaped, so that it is also safe on a terminal."""
    say(json.dumps(data))


def say(words: str) -> None:
    """A line on standard output, whatever code of the user's prints there."""
    typer.echo(words, file=stdout.own())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What the work gives. SIGTERM and SIGHUP cancel it as Ctrl-C does: nothing private stays behind."""
    try:
        import asyncio

        from paddock.cli import noting  # with logging, which asyncio needs anyway

        noting.begin()
        with _Signals() as signals, reporting(_progress):
            return asyncio.run(signals.cancelling(work))
    finally:
        work.close()  # which it needs if Ctrl-C came before it began


class _Signals:
    """The first one cancels the work, and is how the program ends. However many follow, things are put away in peace.

    None of them may raise an error where it happens to come: the event loop would lose what it was just doing, and wait for
    it for ever.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._cancel: Callable[[], object] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` means it
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before if self._first is None else signal.SIG_IGN)  # the program ends now
        if self._first is None or not _is_of_a_signal(kind):
            return
        if self._first == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise typer.Exit(128 + self._first) from None

    async def cancelling(self, work: Coroutine[Any, Any, T]) -> T:
        """The work, which is cancelled by a signal from now on, or by one that came already."""
        import asyncio

        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if self._first is not None:
                raise asyncio.CancelledError
            return await work
        finally:
            self._cancel = None

    def _received(self, number: int, _: object) -> None:
        if self._first is None:
            self._first = number
            if self._cancel is not None:
                self._cancel()


def _is_of_a_signal(kind: type[BaseException] | None) -> bool:
    """Whether work that ended so has nothing to tell but that a signal came."""
    import asyncio

    return kind is None or issubclass(kind, asyncio.CancelledError)


def _progress(words: str, detail: bool) -> None:
    """What takes long, on standard error; on a terminal each detail takes the place of the last."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    if on_terminal:
        typer.echo(f"\r\x1b[K{visible(words)}", err=True, nl=not detail)
    elif not detail:
        typer.echo(visible(words), err=True)


def _forget_stdout() -> None:
    """Nobody reads it any more; without this Python would complain when it flushes at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    own = stdout.own()
    if own is not None:
        os.dup2(nowhere, own.fileno())
    os.close(nowhere)
