"""Agents for people who do not write code for each one: a folder for each, and a service that runs them."""

from paddock.assistants.assistant import Assistant, load_assistants
from paddock.assistants.attachments import Upload
from paddock.assistants.context import Context
from paddock.assistants.hooks import Reply
from paddock.assistants.service import Assistants

__all__ = ["Assistant", "Assistants", "Context", "Reply", "Upload", "load_assistants"]
