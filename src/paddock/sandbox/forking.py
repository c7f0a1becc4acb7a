"""Another sandbox like one that runs: the same in everything but its files, which are its own."""

import os

from paddock.driver import RootedSpec
from paddock.sandbox.create import Launched, Request
from paddock.sandbox.layout import STANDARD, WORKSPACE
from paddock.types import Mount, Network


def like(launched: Launched, workdir: str, network: Network) -> Request:
    """What to ask for. A directory of the host is worked on again only behind a layer, so that neither sees the other."""
    plan = launched.plan
    given = {mount.target: mount for mount in plan.mounts}
    return Request(
        backend=launched.spec,
        mode=None,
        root=None,
        workspace=_source(given[WORKSPACE]) if plan.review else None,
        cache=None,
        mounts=_others(launched),
        review=plan.review,
        image=plan.image,
        limits=plan.limits,
        network=network,
        tools=(),
        secrets=(),
        env=launched.env,
        workdir=workdir,
        timeout=launched.timeout,
        approve=launched.approve,
        name=None,
        labels=plan.labels,
        detached=False,
        idle_timeout=plan.idle_timeout,
        lifetime=plan.lifetime,
    )


def _source(mount: Mount) -> str | None:
    return None if mount.source is None else os.fspath(mount.source)


def _others(launched: Launched) -> tuple[Mount, ...]:
    """The mounts that somebody named; what belongs to an image or another root comes with that."""
    spec = launched.spec
    roots = spec.root_mounts(launched.plan.image) if isinstance(spec, RootedSpec) else ()
    known = {*STANDARD, *(mount.target for mount in roots)}
    return tuple(mount for mount in launched.plan.mounts if mount.target not in known)
