"""Stamps of files: whether a content may have changed, from what no program can set as it likes."""

import os

_BITS = 64


def stamp_of(info: os.stat_result) -> int:
    """From the time of the last change of the inode, which only the kernel sets, and from which inode it is."""
    return (info.st_ctime_ns << 2 * _BITS) | (info.st_dev << _BITS) | info.st_ino


def changed_at(stamp: int) -> int:
    """When the inode changed, in nanoseconds since 1970; 0 for stamps that need no clock."""
    return stamp >> 2 * _BITS
