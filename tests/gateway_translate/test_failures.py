"""Errors in each format's own shape."""

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors

from paddock.gateway.translate import Wire, dump_json, error_body, read_failure

from .judges import anthropic_client, openai_client, served

STATUSES = [400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 529]


@pytest.mark.parametrize("status", STATUSES)
def test_the_official_clients_see_the_message(status: int) -> None:
    with served(dump_json(error_body("anthropic", status, "no way")), status, "application/json") as http:
        with pytest.raises(anthropic.APIStatusError, match="no way") as caught:
            anthropic_client(http).messages.create(model="m", max_tokens=1, messages=[])
        assert caught.value.status_code == status
    with served(dump_json(error_body("chat", status, "no way")), status, "application/json") as http:
        with pytest.raises(openai.APIStatusError, match="no way") as seen:
            openai_client(http).chat.completions.create(model="m", messages=[])
        assert seen.value.type == error_body("chat", status, "")["error"]["type"]
    with pytest.raises(errors.APIError, match="no way"):
        errors.APIError.raise_error(status, error_body("gemini", status, "no way"), None)
    assert genai.__version__


@pytest.mark.parametrize("wire", ["anthropic", "chat", "responses", "gemini"])
@pytest.mark.parametrize("status", STATUSES)
def test_they_are_read_back(wire: Wire, status: int) -> None:
    failed = read_failure(status, dump_json(error_body(wire, status, "no way")))
    assert (failed.status, failed.message) == (status, "no way")
    assert failed.kind == error_body("anthropic", status, "")["error"]["type"]


SHAPES = [
    (b'[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]', "no"),
    (b'{"message":"no"}', "no"),
    (b'{"detail":"no"}', "no"),
    (b'{"error":"no"}', "no"),
    (b'{"error":{}}', "the provider failed"),
    (b"<html>busy</html>", "<html>busy</html>"),
    (b"", "status 500"),
    (b"[]", "[]"),
    (b"x" * 100_000, "x" * 4000),
]


@pytest.mark.parametrize(("raw", "message"), SHAPES)
def test_shapes_that_servers_have(raw: bytes, message: str) -> None:
    assert read_failure(500, raw).message == message


def test_no_room_for_the_conversation_is_said_in_the_client_s_words() -> None:
    openai = {"error": {"message": "Too much.", "type": "invalid_request_error", "code": "context_length_exceeded"}}
    failed = read_failure(400, dump_json(openai))
    assert "prompt is too long" in error_body("anthropic", 400, failed.message)["error"]["message"]
    failed = read_failure(400, dump_json(error_body("anthropic", 400, "prompt is too long: 9 tokens > 8 maximum")))
    assert error_body("responses", 400, failed.message)["error"]["code"] == "context_length_exceeded"
    assert error_body("responses", 400, "something else")["error"]["code"] is None
