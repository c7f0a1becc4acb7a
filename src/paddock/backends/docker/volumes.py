"""Volumes: one for the supervisor, where the engine does not see this host's files; and overlays that the engine mounts."""

import io
import os
import re
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from paddock.backends.docker import order
from paddock.backends.docker.engine import Engine, refusals
from paddock.backends.namespaces.layers import NoLayerError
from paddock.errors import SandboxError
from paddock.types.review import Layer

_SEPARATORS = frozenset(',:\\"\n')
NOT_THIS_ENGINE = "the container engine does not mount an overlay here"
_IMAGE = f"{order.LABEL}image"
_WORK = re.compile(r"(?:^|,)workdir=([^,]*)")
_EVERYWHERE = "/etc/hostname"
"""A small file that engines put into every container."""
_LONGEST = 3900
"""What is told to the kernel about a mount is a page at most."""


async def fill(container: Any, machine: str) -> None:
    """Put the supervisor and its filters into the container. They are root's, and nobody inside can change them."""
    with refusals("fill a volume"):
        await container.put_archive(order.OURS, _packed(machine))
    with (
        suppress(SandboxError),
        refusals("open a volume"),
    ):  # without this no socket can be made there, and all else works
        await container.put_archive(order.OURS, _opened())


def _packed(machine: str) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for inside, path in order.program_files(machine).items():
            info = tarfile.TarInfo(os.path.basename(inside))
            info.mode, info.size = 0o755, os.path.getsize(path)
            with open(path, "rb") as file:
                archive.addfile(info, file)
    buffer.seek(0)
    return buffer


def _opened() -> io.BytesIO:
    """The volume itself, by its name from above since engines pass over `.`: everybody may make sockets there."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        own = tarfile.TarInfo(f"../{os.path.basename(order.OURS)}")
        own.type, own.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(own)
    buffer.seek(0)
    return buffer


def overlay_options(layer: Layer, work: str) -> str | None:
    """What an engine is told to mount an overlay; None where a path has something in it that separates options."""
    paths = (layer.lower, layer.upper, work)
    if any(_SEPARATORS & set(path) for path in paths) or sum(map(len, map(os.fsencode, paths))) > _LONGEST:
        return None
    return f"lowerdir={layer.lower},upperdir={layer.upper},workdir={work},userxattr"


async def make_overlays(engine: Engine, options: Mapping[str, str], image: str, labels: Mapping[str, str]) -> None:
    """Volumes of these names, for the engine to mount when the container starts."""
    import aiodocker

    for name, told in options.items():
        wanted = {
            "Name": name,
            "Driver": "local",
            "DriverOpts": {"type": "overlay", "device": "overlay", "o": told},
            "Labels": {**labels, _IMAGE: image},
        }
        try:
            await engine.volumes.create(wanted)
        except aiodocker.DockerError:
            raise NoLayerError(NOT_THIS_ENGINE) from None


async def remove_volume(engine: Engine, name: str) -> None:
    """With what its mounts have left that only the engine could remove. One that is gone is fine."""
    import aiodocker

    with refusals("remove a volume"):
        try:
            volume = await engine.volumes.get(name)
            await _clear(engine, name, await volume.show())
            await volume.delete()
        except aiodocker.DockerError as error:
            if error.status != 404:
                raise


async def _clear(engine: Engine, name: str, told: Mapping[str, Any]) -> None:
    """An overlay keeps a file of its mounter's in its work directory, and clears that when it is mounted again.

    The engine does so when it is asked for a file of a container that has the volume; that never runs.
    """
    import aiodocker

    work = _WORK.search((told.get("Options") or {}).get("o", ""))
    image = (told.get("Labels") or {}).get(_IMAGE)
    if work is None or image is None or _removed(os.path.join(work[1], "work")):
        return
    mounts = [{"Type": "volume", "Source": name, "Target": "/paddock", "VolumeOptions": {"NoCopy": True}}]
    config = {"Image": image, "Entrypoint": ["none"], "Labels": told["Labels"], "HostConfig": {"Mounts": mounts}}
    with suppress(aiodocker.DockerError):
        container = await engine.containers.create(config, name=f"{name}-clear")
        try:
            (await container.get_archive(_EVERYWHERE)).close()
        finally:
            await container.delete(force=True)


def _removed(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
