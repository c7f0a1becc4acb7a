"""What has to be asked about before a tool does it: by what it does, and by where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from paddock import paths
from paddock.consent import Rule
from paddock.errors import ConfigError
from paddock.tools.tool import Act

ASKED: tuple[Act, ...] = tuple(act for act in get_args(Act) if act != "read")


@dataclass(frozen=True, slots=True)
class ToolRules:
    """A rule for each thing that a tool does: `"allowed"`, `"ask"` (`approve=` of the sandbox) or `"blocked"`.

    They keep a model from mistakes. A command can write wherever the sandbox can, so what must not be written at all is
    mounted read-only, or left out by `restrict`.
    """

    write: Rule = "ask"
    delete: Rule = "ask"
    run: Rule = "ask"
    pull: Rule = "ask"
    stage: Rule = "ask"
    paths: Mapping[str, Rule | Mapping[str, Rule]] = field(default_factory=dict)
    """For what is written or deleted below a path, instead of the above: one rule, or one for each. The longest counts."""

    def __post_init__(self) -> None:
        for act in ASKED:
            _check(act, getattr(self, act))
        for path, given in self.paths.items():
            if not isinstance(path, str) or paths.normalise(path) != path:
                raise ConfigError(f"paths: {path!r} is no absolute path.", hint="Such as '/workspace/reports'.")
            for name, rule in given.items() if isinstance(given, Mapping) else [("write", given)]:
                if name not in ("write", "delete"):
                    raise ConfigError(f"paths: {name!r} has no path.", hint="Give 'write' and 'delete'.")
                _check(path, rule)

    def of(self, act: Act, *places: str) -> Rule:
        """The rule for doing this; the strictest one, if it is at several paths: as it was named, and without links."""
        found = [self._at(act, place) for place in places] or [getattr(self, act)]
        return max(found, key=get_args(Rule).index)

    def _at(self, act: Act, path: str) -> Rule:
        rule: Rule = getattr(self, act)
        for place in sorted(self.paths, key=len):
            if paths.within(path, place):
                given = self.paths[place]
                rule = given.get(act, rule) if isinstance(given, Mapping) else given
        return rule


def _check(name: str, rule: object) -> None:
    if rule not in get_args(Rule):
        raise ConfigError(f"{name}: {rule!r} is no rule.", hint=f"Give {', '.join(map(repr, get_args(Rule)))}.")
