"""What went wrong with a request, before it is put into the words of its wire."""


class RequestFailed(Exception):  # noqa: N818 - it is an answer
    """An answer with an error in it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        outcome: str,
        retry_after: int | None = None,
        costs: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.outcome = outcome
        """For the event and the ledger."""
        self.retry_after = retry_after
        self.final = final
        """Whether it would be the same if it were asked again."""
        self.costs = costs
        """Whether the provider may have answered all the same, to nobody."""


class BadRequest(RequestFailed):
    """The sandbox asked for something that cannot be asked."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message, outcome="BAD_REQUEST")
