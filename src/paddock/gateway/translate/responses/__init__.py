"""OpenAI Responses: requests, answers and streams, read and written."""

from paddock.gateway.translate.responses.answers import read_answer, write_answer
from paddock.gateway.translate.responses.asked import read_request
from paddock.gateway.translate.responses.asking import write_request
from paddock.gateway.translate.responses.reader import Reader
from paddock.gateway.translate.responses.writer import Writer

__all__ = ["Reader", "Writer", "read_answer", "read_request", "write_answer", "write_request"]
