"""The bridge of a sandbox: whose it is, where it listens, and how commands find it."""

import os
from collections.abc import Iterable
from importlib import import_module
from secrets import token_hex
from typing import TYPE_CHECKING, cast

from paddock.bridge import Caller, sdk
from paddock.bridge.grants import Grant, as_grantable
from paddock.consent import initiator
from paddock.driver import SOCKETS, Handler, Listener, RelayingDriver
from paddock.errors import ExistsError, NotAuthorizedError, NotFoundError
from paddock.finishing import in_thread
from paddock.sandbox.commands import PATH
from paddock.sandbox.core import Core
from paddock.sandbox.create import unsupported
from paddock.types.ports import RelayAddress

if TYPE_CHECKING:
    from paddock.bridge.bridge import Bridge

SOCKET = "bridge.sock"
_BRIDGE = "paddock.bridge.bridge"


async def grant(core: Core, tools: Iterable[object]) -> tuple[Grant, ...]:
    """Grant these. The first grant makes the bridge."""
    driver = relaying(core, "tools", "takes no tools")
    sdk.need()
    given = [as_grantable(tool) for tool in tools]
    if initiator() == "model":
        raise NotAuthorizedError("A model cannot grant tools.", hint="The host program grants them.")
    from paddock.bridge.files import run_by  # few sandboxes need it

    await in_thread(import_module, _BRIDGE)  # half a second, the first time
    bridge = core.bridge = core.bridge or _begun(core, driver)
    granted = await bridge.grant(given)
    core.running |= {file for one in given for file in run_by(one)}
    _offer(core, driver, bridge)
    return granted


async def revoke(core: Core, name: str) -> None:
    """Take back what has this name."""
    if core.bridge is None:
        raise NotFoundError(f"No tool '{name}' is granted.", hint="Granted: nothing.")
    await core.bridge.revoke(name)


def relaying(core: Core, capability: str, words: str) -> RelayingDriver:
    """The driver, if it has relays."""
    if not getattr(core.launched.spec.capabilities, capability):
        raise unsupported(core.launched.spec.name, capability, words)
    return cast("RelayingDriver", core.launched.driver)


def _begun(core: Core, driver: RelayingDriver) -> "Bridge":
    from paddock.bridge.bridge import Bridge

    async def listen(handler: Handler) -> Listener:
        try:
            return await driver.listen(RelayAddress.unix(f"{SOCKETS}/{SOCKET}"), handler)
        except ExistsError:  # somebody else serves tools here, to commands of its own
            return await driver.listen(RelayAddress.unix(f"{SOCKETS}/bridge-{token_hex(4)}.sock"), handler)

    bridge = Bridge(Caller.of(core.launched.id, core.launched.plan.labels), core.consent, core.launched.bus, listen)
    driver.on_close(bridge.close)
    return bridge


def _offer(core: Core, driver: RelayingDriver, bridge: "Bridge") -> None:
    """Commands find it from now on."""
    place = driver.environment.get("PADDOCK_SOCKETS", SOCKETS)
    known = driver.environment.get("PATH", PATH)
    name = os.path.basename(bridge.socket or SOCKET)
    core.offer("bridge", {"PADDOCK_BRIDGE": f"{place}/{name}", "PATH": f"{known}:{place}"})
