"""Which kind of repository a name means."""

import os

from paddock.git.context import GitContext
from paddock.git.names import LocalRepo, Repo, UrlRepo, repository
from paddock.git.stopping import Stop
from paddock.git.targets.protocol import Target


def named(repo: "str | os.PathLike[str]", context: GitContext) -> Repo:
    """What somebody means by this text, if it may be used."""
    return repository(repo, allow_file=context.allow_file)


def open_target(repo: Repo, context: GitContext, stop: Stop) -> Target:
    """The repository, ready to be asked."""
    if isinstance(repo, LocalRepo):
        from paddock.git.targets.local import LocalTarget

        return LocalTarget(repo, context, stop)
    if isinstance(repo, UrlRepo):
        from paddock.git.targets.url import UrlTarget

        return UrlTarget(repo, context, stop)
    from paddock.git.targets.github import GitHubTarget

    return GitHubTarget(repo, context, stop)
