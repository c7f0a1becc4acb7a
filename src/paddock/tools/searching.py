"""The tools that look for files and for lines in them."""

from paddock import paths
from paddock.errors import visible
from paddock.sandbox import Sandbox
from paddock.tools import schemas
from paddock.tools.result import ToolResult, done
from paddock.tools.text import fitting
from paddock.tools.tool import ModelTool

FILES = 1000
MATCHES = 100
_MOST_MATCHES = 1000

_WHERE = schemas.text("The directory to look in; the working directory unless given.", ".")


class SearchTools:
    """Over one sandbox. Paths are given back as the other tools take them: below the working directory, relative to it."""

    def __init__(self, sb: Sandbox, most: int) -> None:
        self._sb = sb
        self._most = most

    def tools(self) -> list[ModelTool]:
        """Both."""
        return [
            ModelTool(
                "glob",
                "Find files by their names, sorted. `*` is any part of a name, `**` any number of directories: `**/*.py`.",
                schemas.parameters(pattern=schemas.text("The pattern, such as `src/**/*.py`."), path=_WHERE),
                lambda given, _: self.glob(**given),
            ),
            ModelTool(
                "grep",
                "Find lines in text files by a regular expression. Gives path, number of the line, and the line.",
                schemas.parameters(
                    pattern=schemas.text("The regular expression, as Python has them."),
                    path=schemas.text("The file or directory to look in; the working directory unless given.", "."),
                    glob=schemas.text("Only in files with such names, as `*.py`; all unless given.", ""),
                    ignore_case=schemas.flag("Take upper and lower case as the same."),
                    limit=schemas.number("How many lines at most.", MATCHES, most=_MOST_MATCHES),
                ),
                lambda given, _: self.grep(**given),
            ),
        ]

    async def glob(self, pattern: str, path: str = ".") -> ToolResult:
        """Paths that match."""
        found = [self._short(one) for one in await self._sb.glob(pattern, path)]
        lines = fitting([visible(one) for one in found[:FILES]], self._most)
        shown, more = found[: len(lines)], len(found) > len(lines)
        text = "\n".join(lines) or "[Nothing matches.]"
        if more:
            text += f"\n[{len(shown)} of {len(found)} are shown. Use a narrower pattern to see the rest.]"
        return done(text, files=shown, total=len(found), truncated=more)

    async def grep(
        self, pattern: str, path: str = ".", glob: str = "", ignore_case: bool = False, limit: int = MATCHES
    ) -> ToolResult:
        """Lines that match."""
        found = await self._sb.grep(pattern, path, glob=glob or None, ignore_case=ignore_case, limit=limit + 1)
        lines, matches, size, last, short = [], [], 0, "", ""
        for one in found[:limit]:
            if one.path != last:
                last, short = one.path, self._short(one.path)
            lines.append(f"{visible(short)}:{one.line}: {one.text}")
            matches.append({"path": short, "line": one.line, "text": one.text})
            size += len(lines[-1]) + 1
            if size > self._most:
                break
        more = len(found) > len(lines)
        text = "\n".join(lines) or "[Nothing matches.]"
        if more:
            text += f"\n[The first {len(lines)} are shown. Use a narrower pattern, path or glob to see the rest.]"
        return done(text, matches=matches, truncated=more)

    def _short(self, path: str) -> str:
        workdir = self._sb.workdir
        return paths.below(path, workdir) or "." if paths.within(path, workdir) else path
