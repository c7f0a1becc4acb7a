"""Times of files as dates, also those that no date can be: whoever is in a sandbox sets them as they like."""

from datetime import UTC, datetime

_FIRST = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST = datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp()


def moment(seconds: float) -> datetime:
    """The date of a time; the first or the last that there is for one before or behind."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), tz=UTC)
