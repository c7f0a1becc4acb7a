"""What a `Network` says about one place, one request and one address."""

from enum import Enum

from paddock.types import Network
from paddock.types.addresses import Address, ranges, why_refused
from paddock.types.hosts import plain_path


class Verdict(Enum):
    """What may be said to a host at a port."""

    NOTHING = 0
    REQUESTS = 1
    """Requests of plain HTTP that are looked at one by one."""
    ANYTHING = 2


class Rules:
    """A policy, taken apart once. Hosts are given as `paddock.types.hosts.host` returns them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._open = network.policy == "open"
        self._patterns = network.patterns() if network.policy == "allow" else ()
        self._private = ranges(network.private)

    def place(self, host: str, port: int) -> Verdict:
        """Whether something may be said there, and what."""
        if self._open:
            return Verdict.ANYTHING
        covering = [pattern for pattern in self._patterns if pattern.covers(host, port)]
        if not covering:
            return Verdict.NOTHING
        return Verdict.REQUESTS if all(pattern.http for pattern in covering) else Verdict.ANYTHING

    def request(self, host: str, port: int, method: str, target: str) -> bool:
        """Whether this request of plain HTTP may be made; `target` is a path, perhaps with a query."""
        verdict = self.place(host, port)
        if verdict is not Verdict.REQUESTS:
            return verdict is Verdict.ANYTHING
        path = plain_path(target.partition("?")[0])
        return any(pattern.allows(method, path) for pattern in self._patterns if pattern.covers(host, port))

    def address(self, address: Address) -> str | None:
        """Why this address is not connected to; None if it may be."""
        return why_refused(address, self._private)
