"""What is not done, in words for whoever asked. They name the host and who can change it, and nothing to try instead."""

from enum import IntEnum

from paddock.errors import NotAuthorizedError, UnavailableError
from paddock.types.hosts import shown

_WHO = "The person who runs this sandbox can allow it."


class Reply(IntEnum):
    """What SOCKS says of it."""

    DONE = 0
    FAILED = 1
    NOT_ALLOWED = 2
    UNREACHABLE = 4
    UNKNOWN_COMMAND = 7
    UNKNOWN_ADDRESS = 8


class Refused(Exception):  # noqa: N818 - it never leaves this package
    """Something that was asked for and is not had."""

    def __init__(
        self, words: str, *, status: int = 403, reply: Reply = Reply.NOT_ALLOWED, outcome: str = NotAuthorizedError.code
    ) -> None:
        super().__init__(words)
        self.words = words
        self.status = status
        self.reply = reply
        self.outcome = outcome


def not_allowed(host: str, port: int) -> Refused:
    """No rule has this place."""
    return Refused(f"{shown(host, port)} is not in this sandbox's network policy. {_WHO}")


def not_this_request(host: str, port: int) -> Refused:
    """A rule has the place, and not this method or path."""
    return Refused(f"This request to {shown(host, port)} is not in this sandbox's network policy. {_WHO}")


def not_this_address(host: str, port: int, why: str) -> Refused:
    """The place is allowed, and what it resolves to is not."""
    return Refused(f"{shown(host, port)} leads to {why}, which this sandbox may not reach. {_WHO}")


def no_host() -> Refused:
    """It cannot be read in just one way."""
    return Refused("This is not the name or the address of a host in its usual form.")


def unknown(host: str, port: int) -> Refused:
    """It has no address."""
    return _failed(f"The name of {shown(host, port)} was not found.", 502, Reply.UNREACHABLE)


def unreachable(host: str, port: int) -> Refused:
    """Nobody answers there."""
    return _failed(f"{shown(host, port)} cannot be connected to.", 502, Reply.UNREACHABLE)


def too_slow(host: str, port: int) -> Refused:
    """It takes too long."""
    return Refused(
        f"{shown(host, port)} did not answer in time.", status=504, reply=Reply.UNREACHABLE, outcome="TIMEOUT"
    )


def no_sense(host: str, port: int) -> Refused:
    """It answers, and not as it should."""
    return _failed(f"What {shown(host, port)} answered is not HTTP/1.1 as it should be.", 502, Reply.FAILED)


def not_trusted(host: str, port: int) -> Refused:
    """Its certificate is not in order."""
    return _failed(f"The certificate of {shown(host, port)} is not trusted on the host.", 502, Reply.FAILED)


def _failed(words: str, status: int, reply: Reply) -> Refused:
    return Refused(words, status=status, reply=reply, outcome=UnavailableError.code)
