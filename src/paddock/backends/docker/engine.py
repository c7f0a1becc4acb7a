"""A container engine: where it is, whether it answers, and its errors in our words."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddock.errors import UnavailableError, visible
from paddock.extras import how_to_get

if TYPE_CHECKING:
    import aiodocker

SECONDS_TO_ANSWER = 5.0
SECONDS_TO_REMOVE = 60.0
"""So long an engine that has a container of ours is waited for: it may be busy, and what it keeps has to go."""
_HINT = (
    "Start Docker or Podman (its service: podman system service), add yourself to its group, or name its socket: "
    'DOCKER_HOST, or Docker(socket="unix:///…").'
)
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_PODMAN = ("{runtime}/podman/podman.sock", "/run/podman/podman.sock")
_OWN = ("{runtime}/docker.sock",)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers."""

    client: "aiodocker.Docker"
    address: str | None
    """Where it is, also if it was the usual one that was asked for; None if the client does not tell."""
    machine: str
    """What its containers run on, as in `x86_64`."""
    podman: bool
    rootless: bool
    """Whether it runs as an ordinary user: root in its containers is that user."""

    @property
    def containers(self) -> Any:
        """Its containers; the client's types say less than they could."""
        return self.client.containers

    @property
    def volumes(self) -> Any:
        """Its volumes."""
        return self.client.volumes

    async def identity(self) -> str:
        """Which one it is, whatever its address: there may be another one there tomorrow."""
        with refusals("say who it is"):
            told = await self.client.system.info()
        own = "" if self.podman else str(told.get("ID", ""))  # Podman makes up a new one each time
        return "|".join((own, str(told.get("Name", "")), str(told.get("DockerRootDir", ""))))


@asynccontextmanager
async def reached(address: str | None, patience: float | None = None) -> AsyncIterator[Engine]:
    """The engine at this address, or the usual one; `UnavailableError` if it does not answer in time."""
    client = _client(address)
    try:
        with refusals("do that"):
            yield await _met(client, address, SECONDS_TO_ANSWER if patience is None else patience)
    finally:
        await client.close()


async def _met(client: "aiodocker.Docker", address: str | None, patience: float) -> Engine:
    import asyncio

    import aiodocker
    import aiohttp

    try:
        async with asyncio.timeout(patience):
            version = await client.version()
            rootless = os.geteuid() != 0 and await _is_rootless(client)
    except TimeoutError:
        raise UnavailableError(
            f"The container engine did not answer within {patience:g} seconds.", hint=_HINT
        ) from None
    except (aiodocker.DockerError, aiohttp.ClientError, OSError, ValueError) as error:
        raise UnavailableError(f"No container engine answers: {visible(str(error))}.", hint=_HINT) from None
    machine = str(version.get("Arch", ""))
    podman = any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())
    where = address or getattr(client, "_connection_info", None)
    return Engine(client, where, _MACHINES.get(machine, machine), podman, rootless)


async def _is_rootless(client: "aiodocker.Docker") -> bool:
    info = await client.system.info()
    return any("rootless" in str(option) for option in info.get("SecurityOptions") or ())


def _client(address: str | None) -> "aiodocker.Docker":
    try:
        import aiodocker
    except ImportError:
        raise UnavailableError(
            "The backend 'docker' needs the package aiodocker.", hint=f"Install it: {how_to_get('docker')}"
        ) from None
    for url in (address,) if address else (None, *_sockets()):
        try:
            return aiodocker.Docker(url=url)
        except (AssertionError, ValueError, OSError, aiodocker.DockerError):  # none is there, or the address is none
            continue
    if address:
        raise UnavailableError(f"{address!r} is not the address of a container engine.", hint=_HINT)
    raise UnavailableError("There is no container engine here: none of the usual sockets exists.", hint=_HINT)


def _sockets() -> Iterator[str]:
    """Where engines are that the client does not look for."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/run/user/none")
    for pattern in (*_OWN, *_PODMAN):
        path = pattern.format(runtime=runtime)
        if os.path.exists(path):
            yield f"unix://{path}"


def normalised(socket: str | os.PathLike[str] | None) -> str | None:
    """An address: a plain path is that of a socket."""
    if socket is None:
        return None
    text = os.fspath(socket)
    return text if "://" in text else f"unix://{os.path.abspath(text)}"


@contextmanager
def refusals(what: str, names: Mapping[str, str] | None = None) -> Iterator[None]:
    """A block in which the engine may say no; `what` it was to do. Paths of this host are shown as `names` has them."""
    import aiodocker
    import aiohttp

    try:
        yield
    except aiodocker.DockerError as error:
        raise UnavailableError(
            f"The container engine did not {what}: {visible(_named(error.message, names or {}))}.",
            hint="See its log, and `paddock doctor`.",
        ) from error
    except aiohttp.ClientError as error:
        raise UnavailableError(f"The container engine no longer answers: {visible(str(error))}.", hint=_HINT) from error


async def remove(engine: Engine, container: str) -> None:
    """End it, and return when the engine has forgotten it. One that is gone is fine."""
    import aiodocker

    there = engine.containers.container(container)
    with refusals("remove the container"):
        try:
            await there.delete(force=True, v=True)
        except aiodocker.DockerError as error:
            if error.status == 409:
                with suppress(aiodocker.DockerError, TimeoutError):
                    await there.wait(condition="removed", timeout=SECONDS_TO_REMOVE)
            elif error.status != 404:
                raise


def _named(text: str, names: Mapping[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text
