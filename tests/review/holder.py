"""Holds an overlay in a mount namespace of its own and does in it what it is told, a line at a time. Run as a program."""

import ctypes
import json
import os
import sys
import traceback


def main(lower: str, upper: str, work: str, merged: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None)  # MS_REC | MS_PRIVATE
    options = os.fsencode(f"lowerdir={lower},upperdir={upper},workdir={work},userxattr")
    if libc.mount(b"overlay", os.fsencode(merged), b"overlay", ctypes.c_ulong(0), options) != 0:
        print(json.dumps(os.strerror(ctypes.get_errno())), flush=True)
        return
    os.umask(0o022)
    os.chdir(merged)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            exec(json.loads(line), {"__name__": "inside"})  # what the test wants done
            print(json.dumps("done"), flush=True)
        except BaseException:  # noqa: BLE001 - the test is told
            print(json.dumps(traceback.format_exc()), flush=True)


main(*sys.argv[1:])
