"""What an assistant wants done in its sandbox before a request: files, copies and commands.

Where a step that is done `once` was done is written down beside the workspace, in `/cache`, with a hash of the step: it is
done again when it changes. A step in the background is started once for each sandbox, which its home knows.
"""

import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from paddock.assistants.failing import INSIDE, as_it_is
from paddock.assistants.settings import Step, inside
from paddock.driver import HOME
from paddock.errors import ConfigError, SandboxError, visible
from paddock.finishing import in_thread
from paddock.sandbox import Sandbox

_DONE = "/cache/.paddock/prepared"
_SHOWN = 200
_STARTED = f"{HOME}/.paddock/started"
_MOST_HASHED = 256 << 20
_MOST_MARKS = 64 << 10


class Preparation:
    """The steps of one assistant in one sandbox. Whoever prepares is alone there."""

    def __init__(self, sandbox: Sandbox, assistant: str, folder: str, tell: Callable[[str], None]) -> None:
        self._sandbox = sandbox
        self._assistant = assistant
        self._folder = Path(folder)
        self._tell = tell
        self._marks = {True: f"{_STARTED}/{assistant}.json", False: f"{_DONE}/{assistant}.json"}

    async def run(self, steps: tuple[Step, ...]) -> None:
        """All that are to be done now, in order. One that fails is the end of it, unless that is to be ignored."""
        for step in steps:
            if not (step.once or step.background):
                await self._do(step)
                continue
            mark = await in_thread(self._hash, step)
            done = await self._read(step)
            if mark not in done and await self._do(step):
                await self._note(self._marks[step.background], json.dumps([*done, mark][-1000:]))

    async def _note(self, path: str, text: str) -> None:
        """The file is the sandbox's: what is in its place goes, and where nothing can be noted the step is done again."""
        with suppress(SandboxError):
            try:
                await self._sandbox.write(path, text)
            except SandboxError:
                await self._sandbox.delete(path, recursive=True)
                await self._sandbox.write(path, text)

    async def _do(self, step: Step) -> bool:
        """Whether it went well."""
        self._tell(visible(step.words)[:_SHOWN])
        try:
            if step.file is not None:
                await self._write(step)
            elif step.copy is not None:
                await self._copy(step)
            elif step.background:
                await self._sandbox.start(_command(step))
            else:
                await self._sandbox.exec(_command(step), timeout=step.timeout, check=True)
        except SandboxError as error:
            if not step.ignore_error:
                raise self._failed(step, error) from error
            self._tell(
                f"{visible(step.words)[:_SHOWN]}: {error.message if isinstance(error, INSIDE) else type(error).__name__}"
            )
            return False
        return True

    def _failed(self, step: Step, error: SandboxError) -> SandboxError:
        """The same error, which says what was being done. What a command said inside, users may hear."""
        result = getattr(error, "result", None)
        words = f" {' '.join(result.stderr.split())[-400:]}" if result is not None and result.stderr.strip() else ""
        error.message = (
            f"The sandbox could not be prepared: {visible(step.words)[:_SHOWN]}: {error.message}{visible(words)}"
        )
        return as_it_is(self._assistant, "sandbox", error) if isinstance(error, INSIDE) else error

    async def _write(self, step: Step) -> None:
        path = step.file or ""
        if not (step.keep and await self._sandbox.exists(path)):
            await self._sandbox.write(path, step.content)

    async def _copy(self, step: Step) -> None:
        source = inside(self._folder, step.copy or "")
        if source is None:
            raise ConfigError(
                f"'{visible(step.copy or '')}' is not in the folder of the assistant.",
                hint="Name a file or folder there.",
            )
        if not (step.keep and await self._sandbox.exists(step.to)):
            await self._sandbox.upload(str(source), step.to)

    async def _read(self, step: Step) -> list[str]:
        """What was done. The file is the sandbox's: little is believed."""
        try:
            found = json.loads(await self._sandbox.read_bytes(self._marks[step.background], limit=_MOST_MARKS))
        except (SandboxError, ValueError, RecursionError):
            return []
        return [mark for mark in found if isinstance(mark, str)] if isinstance(found, list) else []

    def _hash(self, step: Step) -> str:
        hashed = sha256(json.dumps(step.to_dict(), sort_keys=True).encode())
        if step.copy is not None:
            left = _MOST_HASHED
            source = self._folder / step.copy
            for path in sorted(_files(source)):
                left -= path.stat().st_size
                if left < 0:
                    break
                name = os.path.relpath(path, source)  # a folder that is elsewhere now has the same in it
                hashed.update(os.fsencode(name) + path.read_bytes())
        return hashed.hexdigest()[:32]


def _command(step: Step) -> str | list[str]:
    return step.command if isinstance(step.command, str) else list(step.command or ())


def _files(path: Path) -> list[Path]:
    """Those that can be copied: a pipe might never end, and is refused later."""
    if path.is_file():
        return [path]
    found = [Path(parent) / name for parent, _, names in os.walk(path) for name in names]
    return [one for one in found if stat.S_ISREG(one.lstat().st_mode)]
