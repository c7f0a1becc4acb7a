"""What was said: a database in the state directory, by user, chat and assistant. A turn is there whole, or not at all."""

import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Literal, cast

from paddock.databases import Database
from paddock.runners import Message
from paddock.state import state_directory

MOST_MESSAGES = 1000
MOST_TEXT = 4 << 20
"""Bytes of one conversation: the oldest messages make way."""
_VERSION = 1
_TABLES = """
create table if not exists threads (
  id integer primary key, user text not null, chat text not null, assistant text not null, token text not null,
  breaks integer not null default 0, updated real not null, unique (user, chat, assistant)
) strict;
create table if not exists messages (
  id integer primary key, thread integer not null references threads (id) on delete cascade, role text not null,
  content text not null, at real not null
) strict;
create index if not exists of_thread on messages (thread, id);
"""


@dataclass(frozen=True, slots=True)
class Whose:
    """A conversation: who has it, where, with whom."""

    user: str
    chat: str
    assistant: str


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation as it is kept."""

    token: str
    """Another one when it was forgotten and began anew."""
    breaks: int
    """How often something was said that the agent's own session of then does not know of."""
    messages: tuple[Message, ...]

    @property
    def session(self) -> str:
        """What the agent's session is known by: one that knows all that was said."""
        return _session(self.token, self.breaks)


class History:
    """Conversations of all users of this host."""

    def __init__(self, path: Path | None = None) -> None:
        self._database = Database(path or state_directory() / "assistants.sqlite", _TABLES, _VERSION)

    async def read(self, whose: Whose, most: int = MOST_MESSAGES) -> Thread:
        """The last messages of a conversation, which begins if there is none.

        The first of them is the user's: providers refuse a conversation that begins with an answer.
        """
        return await self._database.run(lambda database: _read(database, whose, most))

    async def said(self, whose: Whose) -> tuple[Message, ...]:
        """All that is kept of a conversation. Whoever only looks begins none."""
        return await self._database.run(lambda database: _said(database, whose, MOST_MESSAGES))

    async def add(self, whose: Whose, messages: Sequence[Message], heard: str | None = None) -> None:
        """Keep what was said, and heard by this session of the agent. If that is not the present one, another begins."""
        await self._database.run(lambda database: _add(database, whose, messages, heard))

    async def forget(self, user: str, chat: str, assistant: str | None = None) -> int:
        """Forget conversations; how many there were."""
        return await self._database.run(lambda database: _forget(database, user, chat, assistant))

    def close(self) -> None:
        """Idempotent."""
        self._database.close()


def _read(database: sqlite3.Connection, whose: Whose, most: int) -> Thread:
    with _transaction(database):
        _, token, breaks = _thread(database, whose)
    said = _said(database, whose, most)
    return Thread(token, breaks, tuple(dropwhile(lambda message: message.role != "user", said)))


def _said(database: sqlite3.Connection, whose: Whose, most: int) -> tuple[Message, ...]:
    query = """select role, content from messages where thread =
      (select id from threads where user = ? and chat = ? and assistant = ?) order by id desc limit ?"""
    key = (whose.user, whose.chat, whose.assistant)
    rows = database.execute(query, (*key, min(most, MOST_MESSAGES))).fetchall()
    role = Literal["user", "assistant"]
    return tuple(Message(cast("role", who), text) for who, text in reversed(rows))


def _add(database: sqlite3.Connection, whose: Whose, messages: Sequence[Message], heard: str | None) -> None:
    now = time.time()
    with _transaction(database):
        thread, token, breaks = _thread(database, whose)
        rows = [(thread, one.role, _storable(one.text), now) for one in messages if one.role != "system"]
        database.executemany("insert into messages (thread, role, content, at) values (?, ?, ?, ?)", rows)
        query = "update threads set updated = ?, breaks = breaks + ? where id = ?"
        database.execute(query, (now, int(heard != _session(token, breaks)), thread))
        _trim(database, thread)


def _session(token: str, breaks: int) -> str:
    return f"{token}:{breaks}"


def _storable(text: str) -> str:
    """A text that UTF-8 can have: a model may say half of a surrogate pair."""
    return text.encode(errors="replace").decode()


def _thread(database: sqlite3.Connection, whose: Whose) -> tuple[int, str, int]:
    key = (whose.user, whose.chat, whose.assistant)
    database.execute(
        "insert into threads (user, chat, assistant, token, updated) values (?, ?, ?, ?, ?) on conflict do nothing",
        (*key, secrets.token_hex(16), time.time()),
    )
    query = "select id, token, breaks from threads where user = ? and chat = ? and assistant = ?"
    thread, token, breaks = database.execute(query, key).fetchone()
    return int(thread), str(token), int(breaks)


def _trim(database: sqlite3.Connection, thread: int) -> None:
    left, keep_from = MOST_TEXT, 0
    query = "select id, length(cast(content as blob)) from messages where thread = ? order by id desc limit ?"
    for count, (number, size) in enumerate(database.execute(query, (thread, MOST_MESSAGES)).fetchall()):
        left -= size
        if left < 0 and count:
            break
        keep_from = number
    database.execute("delete from messages where thread = ? and id < ?", (thread, keep_from))


def _forget(database: sqlite3.Connection, user: str, chat: str, assistant: str | None) -> int:
    query = "select id from threads where user = ? and chat = ? and assistant = coalesce(?, assistant)"
    with _transaction(database):
        found = database.execute(query, (user, chat, assistant)).fetchall()
        database.executemany("delete from messages where thread = ?", found)
        database.executemany("delete from threads where id = ?", found)
    return len(found)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("begin immediate")
    try:
        yield
        database.execute("commit")
    except BaseException:
        if database.in_transaction:  # on a disk that is full it has been taken back already
            database.execute("rollback")
        raise
