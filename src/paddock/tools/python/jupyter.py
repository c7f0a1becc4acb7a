"""Inside: a real Jupyter kernel, spoken to by its own client, which is installed wherever `ipykernel` is."""

import importlib.util
import json
import os
import queue
import re
import signal
import sys
import tempfile
from typing import Any

from paddock.tools.python.wire import Channel

ESCAPES = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
PATIENCE = 5

INSTALL = """Install ipykernel and jupyter_client in the sandbox's Python, or use kernel="builtin"."""


def has_jupyter() -> bool:
    """Whether there is a kernel, and what it takes to speak to it."""
    return all(importlib.util.find_spec(name) for name in ("ipykernel", "jupyter_client"))


class Kernel:
    """One kernel, on sockets in a directory that nobody else may look into."""

    def __init__(self, channel: Channel) -> None:
        from jupyter_client.manager import KernelManager

        self._channel = channel
        place = tempfile.mkdtemp(prefix="kernel-")
        self._manager = KernelManager(transport="ipc", ip=os.path.join(place, "k"), connection_file=place + "/k.json")
        self._manager.start_kernel(stdout=2, stderr=2)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        signal.signal(signal.SIGINT, self._interrupt)

    def serve(self) -> None:
        """One run after the other."""
        self._channel.send("ready", kernel="jupyter", python=sys.version.split()[0])
        while True:
            asked = self._channel.requests.get()
            self.run(asked["code"])
            self._channel.send("done", run=asked["run"])

    def _interrupt(self, number: int, frame: object) -> None:
        self._manager.interrupt_kernel()
        self._client.kernel_info()  # a kernel that awaits looks at the signal when it next has something to do

    def run(self, code: str) -> None:
        """Everything that the kernel says of it is passed on, until it is idle again."""
        try:
            asked = self._client.execute(code, allow_stdin=False)
        except UnicodeEncodeError as error:  # half a surrogate pair, which no message can hold
            self._channel.send("error", name=type(error).__name__, message=str(error), traceback=str(error))
            return
        told = False
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=1)
            except queue.Empty:
                if not self._manager.is_alive():
                    os._exit(1)
                continue
            if message["parent_header"].get("msg_id") == asked:
                kind, content = message["msg_type"], message["content"]
                if kind == "status" and content["execution_state"] == "idle":
                    break
                if kind == "status":
                    self._channel.send("begun")
                told = told or kind == "error"
                self._pass_on(kind, content)
        if not told:
            self._tell(self._reply(asked))

    def _reply(self, asked: str) -> dict[str, Any]:
        """How the kernel says that it went; whoever is inside may keep it from doing so."""
        for _ in range(PATIENCE):
            try:
                while True:
                    message = self._client.get_shell_msg(timeout=1)
                    if message["parent_header"].get("msg_id") == asked:
                        return dict(message["content"])
            except queue.Empty:
                continue
        return {}

    def _tell(self, reply: dict[str, Any]) -> None:
        """An error that was not shown as one: groups of exceptions, and what magics raise, are only printed."""
        if reply.get("status") == "error":
            name, message = str(reply.get("ename")), str(reply.get("evalue"))
            self._channel.send("error", name=name, message=message, traceback="")

    def _pass_on(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            text = content["text"]
            for start in range(0, len(text), 1 << 15):
                self._channel.send("stream", name=content["name"], text=text[start : start + (1 << 15)])
        elif kind in ("display_data", "execute_result"):
            data = {media: one if isinstance(one, str) else json.dumps(one) for media, one in content["data"].items()}
            self._channel.send("display" if kind == "display_data" else "result", data=data)
        elif kind == "error":
            text = ESCAPES.sub("", "\n".join(content["traceback"]))
            self._channel.send("error", name=content["ename"], message=content["evalue"], traceback=text)


def serve_jupyter(channel: Channel) -> None:
    """Until the host goes."""
    Kernel(channel).serve()
