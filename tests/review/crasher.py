"""Applies a layer, or recovers, and is killed at the n-th system call that changes something. Run as a program."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from paddock.review import host, recover
from paddock.types.review import Layer
from review.layers import changes

CALLS = ("open", "write", "rename", "unlink", "mkdir", "rmdir", "symlink", "chmod", "fchmod", "fsync", "setxattr")


def main(what: str, layer: str, point: int) -> None:
    if what == "staging":
        os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
    if what == "carrying":
        host.Host.put_file = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    counter = itertools.count()

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if next(counter) == point:
                if call is write and len(args[1]) > 1:
                    write(args[0], args[1][:1])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return wrapper

    found = changes(*[Layer.from_dict(json.loads(layer))] if what != "recover" else [])
    write = os.write
    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    vars(host)["rename"] = counted(vars(host)["rename"])
    if what == "recover":
        recover()
    else:
        asyncio.run(found.apply())
    print(next(counter))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
