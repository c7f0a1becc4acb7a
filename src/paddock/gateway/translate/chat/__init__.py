"""OpenAI Chat Completions: requests, answers and streams, read and written."""

from .answers import read_answer, write_answer
from .asked import read_request
from .asking import write_request
from .reader import Reader
from .writer import Writer

__all__ = ["Reader", "Writer", "read_answer", "read_request", "write_answer", "write_request"]
