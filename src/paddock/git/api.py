"""GitHub's REST API: one host, no redirects, bounded answers, a token that is in no URL and no error."""

import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from paddock.errors import GitAuthError, GitError, TooLargeError, visible
from paddock.git.names import is_loopback
from paddock.git.stopping import Stop
from paddock.git.tokens import scrubbed

MOST_ANSWER = 160 << 20
"""A blob of 100 MB in base64, and some words around it."""
_VERSION = "2022-11-28"
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and what came with it: an object, a list, or nothing that was understood."""

    status: int
    body: Any

    @property
    def message(self) -> str:
        """GitHub's own words about a failure."""
        text = self.body.get("message") if isinstance(self.body, dict) else None
        return visible(text)[:300] if isinstance(text, str) else ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Nowhere: the answer is an answer like any other."""


class Api:
    """What is asked of GitHub."""

    def __init__(self, base: str, token: str, seconds: float, stop: Stop) -> None:
        self._base = base
        self._token = token
        self._seconds = seconds
        self._stop = stop
        self._opener = _opener(base)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request. Every answer with a status is a result; none at all is a `GitError`."""
        if self._stop():
            raise GitError("The request was stopped.", hint="Try again.", operation=method)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base}{path}", data=data, method=method)  # noqa: S310 - checked by config
        for name, value in self._headers(data is not None).items():
            request.add_unredirected_header(name, value)
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                return self._answer(response)
        except urllib.error.HTTPError as error:
            with error:
                return self._answer(error)
        except (OSError, HTTPException, ValueError) as error:
            why = scrubbed(visible(str(getattr(error, "reason", error))), self._token)[:200]
            raise GitError(
                f"GitHub did not answer: {why}.", hint="Check the network and the setting github_api.", operation=method
            ) from None

    def _headers(self, has_body: bool) -> dict[str, str]:
        headers = {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {self._token}",
            "User-Agent": "paddock",
            "X-GitHub-Api-Version": _VERSION,
        }
        return {**headers, "Content-Type": "application/json"} if has_body else headers

    def _answer(self, response: "HTTPResponse | urllib.error.HTTPError") -> Answer:
        data, deadline = bytearray(), time.monotonic() + self._seconds
        while piece := response.read1(_PIECE):
            data += piece
            if len(data) > MOST_ANSWER:
                raise TooLargeError("GitHub's answer is too large.", hint="Ask for smaller files.")
            if time.monotonic() > deadline or self._stop():
                raise GitError("GitHub's answer takes too long.", hint="Try again.", operation="read")
        try:
            body = json.loads(data) if data else None
        except (ValueError, RecursionError):
            body = None
        return Answer(response.status or 0, body)

    def failed(self, operation: str, answer: Answer, what: str) -> GitError:
        """The error for an answer that was not expected."""
        said = scrubbed(answer.message, self._token)
        words = f"GitHub answered {answer.status}{f' ({said})' if said else ''} when asked {what}."
        if answer.status == 401:
            return GitAuthError(words, operation=operation)
        if answer.status in (403, 429):
            return GitAuthError(
                words,
                operation=operation,
                hint="The token lacks a right, or the hourly limit is used up: see its permissions, or wait.",
            )
        if 300 <= answer.status < 400:
            return GitError(
                words,
                operation=operation,
                hint="It leads elsewhere, which is not followed: use the repository's new name.",
            )
        if answer.status == 404:
            return GitError(
                words, operation=operation, hint="Check the name, and that the token may see the repository."
            )
        return GitError(words, operation=operation)


def _opener(base: str) -> urllib.request.OpenerDirector:
    """For https alone, or http on this host itself, which no proxy is asked about."""
    opener = urllib.request.OpenerDirector()
    host = urlsplit(base).hostname or ""
    if is_loopback(host):
        opener.add_handler(urllib.request.ProxyHandler({}))
        opener.add_handler(urllib.request.HTTPHandler())
    else:
        opener.add_handler(urllib.request.ProxyHandler())
    opener.add_handler(urllib.request.HTTPSHandler(context=ssl.create_default_context()))
    opener.add_handler(urllib.request.HTTPErrorProcessor())
    opener.add_handler(urllib.request.HTTPDefaultErrorHandler())
    opener.add_handler(_NoRedirects())
    return opener


def instant(seconds: int) -> str:
    """A moment as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
