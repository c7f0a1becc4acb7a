"""What a starting container sees of our runtime directory: the socket that its supervisor calls, and what root shows."""

import os
import socket
import subprocess
from collections.abc import Mapping

from paddock import places
from paddock.backends.namespaces.failing import failure, refused_layer
from paddock.backends.namespaces.identity import Identity
from paddock.backends.namespaces.layers import NoLayerError, why
from paddock.wire.binary import supervisor_path

SOCKET = "host"
_MOST_WAITING = 4


class Place:
    """A directory that is there while a container starts. Containers see parts of it, and nothing else of ours."""

    def __init__(self, sandbox: str, identity: Identity) -> None:
        self.path = places.path_for(sandbox)
        self.calls = self.path / "call"
        """What the container sees: the directory of the socket."""
        self._identity = identity
        self._to_show: list[tuple[int, str]] = []
        self._layers: dict[int, str] = {}
        self.path.mkdir(mode=0o711)
        os.chmod(self.path, 0o711)  # noqa: S103 - what is above it is 0700

    def listen(self) -> socket.socket:
        """Where the supervisor calls. Only who is in the container, or can reach our runtime directory, gets there."""
        self.calls.mkdir(mode=0o711)
        os.chmod(self.calls, 0o711)  # noqa: S103
        path = str(self.calls / SOCKET)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(path)
            os.chmod(path, 0o666)  # noqa: S103 - the container's user is another one
            listening.listen(_MOST_WAITING)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
        return listening

    def show(self, fd: int, layer: str | None = None) -> str:
        """Where what a descriptor stands for will be, whatever becomes of its name; as the sandbox's user's own.

        With `layer`, an overlay over it, made of what is in that directory of ours.
        """
        if layer is not None:
            self._layers[fd] = layer
        path = str(self.path / f"{places.SHOWN}{len(self._to_show)}")
        self._to_show.append((fd, path))
        return path

    def mount(self) -> None:
        """Mount all that is to be shown."""
        if not self._to_show:
            return
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        layers = {fd: os.open(path, flags) for fd, path in self._layers.items()}
        try:
            said = self._mounted(layers)
        finally:
            for opened in layers.values():
                os.close(opened)
        if said is not None:
            code = refused_layer(said)
            raise failure(said, {}) if code is None else NoLayerError(why(code))

    def _mounted(self, layers: Mapping[int, int]) -> str | None:
        """Why it was not, if it was not."""
        words: list[object] = [self._identity.uid, self._identity.gid]
        for fd, path in self._to_show:
            info = os.fstat(fd)
            words += [fd, info.st_uid, info.st_gid, layers.get(fd, "-"), path]
        done = subprocess.run(
            [supervisor_path(), "show", *map(str, words)],
            pass_fds=[*(fd for fd, _ in self._to_show), *layers.values()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return None if done.returncode == 0 else done.stderr

    def remove(self) -> None:
        """The container has what it needs."""
        places.remove(self.path)
