#!/bin/sh
# Sees to it that the supervisor can be built with musl, with which it starts in a third of the time. Without it the compiler's own
# library will do, and nothing is said.
cd "$(dirname "$0")/.."
. scripts/apt.sh
command -v musl-gcc > /dev/null || by_apt musl-tools || true
