#!/bin/sh
# Installs what a lock file pins for a Python. With uv that takes seconds instead of minutes; where it cannot be had, or cannot
# reach what pip is configured for, pip does it. Locks are complete, so nothing is resolved.
set -u
python=$1
lock=$2
pip() { "$python" -m pip --disable-pip-version-check --quiet install --no-deps --no-compile --require-hashes "$@"; }

pip -r "$(dirname "$0")/../requirements/installer.lock" > /dev/null 2>&1 &&
  "$python" -m uv --quiet pip install --python "$python" --no-deps --require-hashes -r "$lock" 2> /dev/null ||
  pip -r "$lock"
