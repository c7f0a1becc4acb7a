"""OpenAI Chat Completions: requests, answers and streams, read and written."""

from paddock.gateway.translate.chat.answers import read_answer, write_answer
from paddock.gateway.translate.chat.asked import read_request
from paddock.gateway.translate.chat.asking import write_request
from paddock.gateway.translate.chat.reader import Reader
from paddock.gateway.translate.chat.writer import Writer

__all__ = ["Reader", "Writer", "read_answer", "read_request", "write_answer", "write_request"]
