"""The tools for git: files come in, and changes wait outside for somebody to push them. There is no tool that does."""

from paddock.sandbox import Sandbox
from paddock.tools import schemas
from paddock.tools.result import ToolResult, done
from paddock.tools.tool import ModelTool

_REPO = schemas.text("The repository: owner/name on GitHub, or a URL.")
_BRANCH = schemas.text("The branch.", "main")


class GitTools:
    """Over the gate of one sandbox."""

    def __init__(self, sb: Sandbox) -> None:
        self._sb = sb

    def tools(self) -> list[ModelTool]:
        """Both."""
        return [
            ModelTool(
                "pull_from_git",
                "Get files from a branch of a repository, at the paths that they have there. What differs is merged.",
                schemas.parameters(
                    repo=_REPO,
                    paths=schemas.texts("Files and directories of the repository; `.` is everything."),
                    branch=_BRANCH,
                ),
                lambda given, _: self.pull(**given),
                "pull",
            ),
            ModelTool(
                "stage_for_push",
                "Propose files as a commit on a branch of a repository. Nothing is pushed: a person looks at it first.",
                schemas.parameters(
                    files=schemas.texts("Files and directories to propose; `.` is everything."),
                    repo=_REPO,
                    message=schemas.text("The message of the commit."),
                    branch=_BRANCH,
                ),
                lambda given, _: self.stage(**given),
                "stage",
            ),
        ]

    async def pull(self, repo: str, paths: list[str], branch: str = "main") -> ToolResult:
        """Files of a branch."""
        found = await self._sb.git.pull(repo, paths, branch)
        told = {name: value for name, value in found.to_dict().items() if value or name == "pulled"}
        return done(**told)

    async def stage(self, files: list[str], repo: str, message: str, branch: str = "main") -> ToolResult:
        """A commit that waits. The model is told what is in it, and the person who looks at it sees the diffs."""
        commit = await self._sb.git.stage(files, repo, message, branch)
        named = [{"path": file.path, "operation": file.operation} for file in commit.files]
        return done(commit_id=commit.id, files=named)
