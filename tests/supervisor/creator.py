"""A host process that tests kill: it makes a sandbox, starts what it is told, says so, and waits."""

import asyncio
import json
import os
import sys
import time

from paddock import Sandbox
from paddock.backends.local import Local


async def main() -> None:
    options, commands, env = json.loads(sys.argv[1])
    sb = await Sandbox.create(Local(**options["local"]))
    for argv in commands:
        await sb.start(argv, env=env)
    if options["fork"] and os.fork() == 0:  # a child that holds all descriptors, and does nothing
        time.sleep(60)  # noqa: ASYNC251 - there is no loop in it
        os._exit(0)
    print("started", flush=True)
    await asyncio.sleep(60)


asyncio.run(main())
