"""Anthropic Messages: requests, answers and streams, read and written."""

from paddock.gateway.translate.anthropic.answers import read_answer, write_answer
from paddock.gateway.translate.anthropic.asked import read_request
from paddock.gateway.translate.anthropic.asking import write_request
from paddock.gateway.translate.anthropic.reader import Reader
from paddock.gateway.translate.anthropic.writer import Writer

__all__ = ["Reader", "Writer", "read_answer", "read_request", "write_answer", "write_request"]
