"""Watches that the supervisor keeps."""

import errno
import os
import threading
from contextlib import suppress

from paddock.dirs.watching import OVERFLOW, Event, Watched
from paddock.paths import decode
from paddock.wire.calls import Root, broken
from paddock.wire.fields import Fields, Malformed, pack_u32
from paddock.wire.frames import Reply, Request
from paddock.wire.nodes import read_watched

_BACKLOG = 32_768
_ALL = 0xFFFFFFFF


class WireSource:
    """Watches of directories below a root, by one watcher of the supervisor."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._watcher = root.calls.new_id()
        self._changed = threading.Condition()
        self._events: list[Event] = []
        self._stopped = self._lost = False
        root.calls.listen(self._watcher, self._heard)

    def add(self, directory: str) -> Watched:
        payload = self._root.at(directory) + pack_u32(self._watcher)
        try:
            return read_watched(self._root.ask(Request.WATCH, payload, Reply.WATCHED))
        except Malformed:
            raise broken() from None

    def drop(self, watch: int) -> None:
        with suppress(OSError):
            self._root.send(Request.UNWATCH, pack_u32(self._watcher) + pack_u32(watch))

    def events(self) -> list[Event] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._stopped or self._lost)
            if self._stopped:
                return None
            if not self._events:
                raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
            events, self._events = self._events, []
            return events

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        self._root.calls.unlisten(self._watcher)
        self.drop(_ALL)

    def _heard(self, payload: bytes | None) -> None:
        with self._changed:
            try:
                if payload is None:
                    self._lost = True
                elif len(self._events) < _BACKLOG:
                    self._events.append(_event(payload))
                elif len(self._events) == _BACKLOG:  # nobody listens quickly enough
                    self._events.append(Event(_ALL, OVERFLOW, ""))
            except Malformed:
                self._lost = True
            self._changed.notify_all()


def _event(payload: bytes) -> Event:
    fields = Fields(payload)
    watch, mask, name = fields.u32(), fields.u32(), fields.text()
    fields.end()
    if b"/" in name or name in (b".", b".."):
        raise Malformed("an event's name is not a name")
    return Event(watch, mask, decode(name))
