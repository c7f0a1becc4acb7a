"""Code of smolagents in a sandbox: `CodeAgent(tools, model, executor=PaddockExecutor(sandbox))`."""

import json
from typing import Any

from paddock.extras import need

need("smolagents")

from smolagents.default_tools import FinalAnswerTool  # type: ignore[import-untyped]
from smolagents.local_python_executor import CodeOutput  # type: ignore[import-untyped]
from smolagents.monitoring import AgentLogger, LogLevel  # type: ignore[import-untyped]
from smolagents.remote_executors import RemotePythonExecutor  # type: ignore[import-untyped]
from smolagents.tools import get_tools_definition_code  # type: ignore[import-untyped]
from smolagents.utils import AgentError  # type: ignore[import-untyped]

from paddock.consent import begun_by
from paddock.errors import ConfigError, SandboxError
from paddock.sandbox.behalf import refuse_blocked
from paddock.sync import Sandbox
from paddock.sync.portal import portal
from paddock.tools.python import PythonResult, PythonSession
from paddock.tools.python.builtin import LONGEST

_PACKAGES = {"PIL": "pillow"}
_PREFIX = "safe:"
"""What smolagents puts before an answer that is JSON."""
_ANSWER = """

import json as _json
class FinalAnswerException(BaseException):
    pass
def final_answer(answer=None):
    said = "safe:" + _json.dumps(answer, default=str)
    if len(said) > LONGEST:
        raise ValueError(
            f"The answer has {len(said)} characters as JSON, and LONGEST are the most. "
            "Write it to a file, and answer with its path."
        )
    raise FinalAnswerException(said)
""".replace("LONGEST", str(LONGEST))
_INSTEAD = "await PythonSession(sandbox).run(...)"


class PaddockExecutor(RemotePythonExecutor):  # type: ignore[misc]
    """One Python in a sandbox, which keeps variables from step to step. The sandbox is yours, and you close it.

    What comes back is only ever read as JSON: texts, numbers, lists and dictionaries, whatever the code says that they are.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        additional_imports: tuple[str, ...] = (),
        *,
        logger: Any = None,
        python: str = "python3",
        timeout: float = 300.0,
    ) -> None:
        if not isinstance(sandbox, Sandbox):
            raise ConfigError(
                "smolagents blocks, and needs a sandbox for that.", hint="Give it a paddock.sync.Sandbox."
            )
        super().__init__(list(additional_imports), logger or AgentLogger(level=LogLevel.ERROR), allow_pickle=False)
        self._sandbox = sandbox
        self._session = PythonSession(sandbox._async, python=python, timeout=timeout)
        self._python = python
        self._variables: dict[str, Any] = {}
        self._definitions = ""
        self.installed_packages = self.install_packages(list(additional_imports))

    def __call__(self, code_action: str) -> CodeOutput:
        """Run one step. Where the Python had to be ended, or has ended itself, the new one is first sent what it was."""
        if self._definitions and not self._session.alive:
            super().send_variables(self._variables)
            self.run_code_raise_errors(self._definitions)
        return self.run_code_raise_errors(code_action)

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run one step. What it raises is an error for the model, and a final answer is one that ends the work."""
        try:
            refuse_blocked(self._sandbox._async, "run")
            with begun_by("model"):
                result = portal().run(lambda: self._session.run(code), _INSTEAD)
        except SandboxError as error:
            raise AgentError(error.to_llm(), self.logger) from error
        if result.error is None:
            return CodeOutput(output=result.text, logs=_printed(result), is_final_answer=False)
        if result.error.name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(output=self._answer(result.error.message), logs=_printed(result), is_final_answer=True)
        raise AgentError(f"{_printed(result)}\n{result.error.traceback or result.error}", self.logger)

    def _answer(self, said: str) -> Any:
        """Not by smolagents: that makes images, arrays and more of what is only said to be one."""
        try:
            if not said.startswith(_PREFIX):
                raise ValueError("it is no JSON.")
            return json.loads(said.removeprefix(_PREFIX))
        except (ValueError, RecursionError) as error:  # code may raise what looks like an answer
            raise AgentError(f"The answer cannot be read: {error}", self.logger) from error

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Set variables inside."""
        super().send_variables(variables)
        self._variables |= variables

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Define the tools inside. The usual one for answers is our own there: theirs would need numpy and pillow."""
        sent = dict(tools)
        answer = sent.get("final_answer")
        if type(answer) is FinalAnswerTool:
            del sent["final_answer"]
        elif answer is not None:
            self._patch_final_answer_with_exception(answer)
        named = {_PACKAGES.get(one, one) for tool in sent.values() for one in tool.to_dict()["requirements"]}
        self.installed_packages += self.install_packages(sorted(named - {"smolagents", *self.installed_packages}))
        self._definitions = get_tools_definition_code(sent) + _ANSWER
        self.run_code_raise_errors(self._definitions)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install what is named, with the pip of the sandbox; it has to be let to an index for that."""
        if additional_imports:
            command = [self._python, "-m", "pip", "install", "--quiet", *additional_imports]
            result = self._sandbox.exec(command, env={"PIP_BREAK_SYSTEM_PACKAGES": "1"})  # its home is its own
            if result.exit_code:
                raise AgentError(f"{' '.join(additional_imports)} could not be installed: {result.stderr}", self.logger)
        return additional_imports

    def cleanup(self) -> None:
        """End the Python. The sandbox stays."""
        portal().run(self._session.close, "await PythonSession(sandbox).close()")


def _printed(result: PythonResult) -> str:
    return result.stdout + result.stderr
