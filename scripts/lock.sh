#!/bin/sh
# Renews the lock files from pyproject.toml. Needs uv; everything else needs only the locks.
# Extras stay named: pip looks for the newest of a package of which only another form is pinned, and has no hash for it.
set -eu
cd "$(dirname "$0")/.."
lock() { uv pip compile --quiet --universal --python-version 3.11 --no-strip-extras --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links "$@"; }
lock pyproject.toml requirements/build.in --extra cli --extra git -o requirements/run.lock
lock pyproject.toml --extra bwrap -o requirements/bwrap.lock
lock pyproject.toml requirements/build.in --extra dev --no-emit-package paddock -o requirements/dev.lock
lock requirements/installer.in -o requirements/installer.lock
