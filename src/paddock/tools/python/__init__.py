"""A Python that keeps its state between runs, in a sandbox: the session on the host, and the programs that run inside."""

from paddock.tools.python.result import PythonError, PythonResult, RichOutput
from paddock.tools.python.session import PythonSession

__all__ = ["PythonError", "PythonResult", "PythonSession", "RichOutput"]
