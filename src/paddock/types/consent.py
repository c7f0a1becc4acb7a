"""Who agreed to what: an approval is good for one act on one content, once."""

from dataclasses import dataclass

from paddock.types.events import Initiator
from paddock.types.record import Record


@dataclass(frozen=True, slots=True)
class ApprovalRequest(Record):
    """What somebody is asked to agree to."""

    action: str
    """Such as `apply` or `push`."""
    subject: str
    """What it is done to: a directory, a repository and branch."""
    digest: str
    """The hash of exactly the content that would be used."""
    nonce: str
    """Another one for each time that it is asked."""
    summary: str
    """A few words for a person."""
    initiator: Initiator = "host"
    sandbox: str | None = None


@dataclass(frozen=True, slots=True)
class Approval(Record):
    """A person's word. It can be used once, for the content that the person was shown."""

    nonce: str
    action: str
    subject: str
    digest: str
    expires: float
    """In seconds since 1970."""
