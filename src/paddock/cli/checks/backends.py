"""Whole sandboxes, made and used."""

import os
import tempfile
import time
from dataclasses import replace

from paddock.cli.checks.check import Check
from paddock.config import setting
from paddock.errors import SandboxError, UnavailableError
from paddock.registry import find, load
from paddock.sandbox import Sandbox


def default(name: str) -> Check:
    """What a sandbox without a backend's name would be."""
    chosen = setting("backend")
    return Check(name, "ok", f"{find(chosen.value).name}, by {chosen.source}")


def only_if_needed(check: Check) -> Check:
    """A part of `namespaces` that is missing is no failure where another backend is the one that is used."""
    if check.status != "fail" or is_default("namespaces"):
        return check
    return replace(check, status="warn", fix=f"{check.fix} Only the backend 'namespaces' needs it.")


def whole(backend: str, name: str) -> Check:
    """A sandbox of this backend; one that cannot be had is a failure if it is the one that is used by default."""
    import asyncio

    try:
        return Check(name, "ok", asyncio.run(_use(backend)))
    except UnavailableError as error:
        return Check(name, "fail" if is_default(backend) else "warn", error.message, error.hint)


def review(name: str) -> Check:
    """A directory that is worked on and not written to; how that is done."""
    import asyncio

    with tempfile.TemporaryDirectory() as directory:
        held = asyncio.run(_reviewed(directory))
    how = held.partition("; changes go to ")[2] or held
    if "copy" in how:
        return Check(name, "warn", f"works, by {how}", "It takes longer for large projects, and is as safe.")
    return Check(name, "ok", f"works, by {how}")


async def _reviewed(directory: str) -> str:
    async with Sandbox.create("namespaces", workspace=directory, review=True) as sb:
        await sb.write("doctor.txt", "well")
        if os.listdir(directory) or [change.path for change in await sb.changes()] != ["/workspace/doctor.txt"]:
            raise SandboxError("A change was not held back, or not found.", hint="Do not use review=True here.")
        return sb.isolation.files.by


def is_default(backend: str) -> bool:
    """Whether it is the one that is used when nobody says."""
    try:
        return find(setting("backend").value).name == backend
    except SandboxError:
        return False


async def _use(backend: str) -> str:
    started = time.perf_counter()
    async with Sandbox.create(backend) as sb:
        done = f"made in {_since(started)}; files work"
        await sb.write("doctor.txt", "well")
        if await sb.read("doctor.txt") != "well":
            raise SandboxError("What was read is not what was written.", hint="Look for a disk that fails.")
        can = load(backend)().capabilities
        if can.commands and can.shell:
            started = time.perf_counter()
            await sb.exec(["true"], timeout=30, check=True)
            done += f", and commands, the first in {_since(started)}"
        held = [part for part in ("files", "processes", "network", "syscalls") if getattr(sb.isolation, part)]
        return f"{done}; isolates {', '.join(held) or 'nothing'}"


def _since(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:.1f} ms"
