# For the scripts beside it: packages of the system, where root can have them. Nothing waits long for a mirror that is not there.
apt() {
  apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 -o DPkg::Lock::Timeout=30 \
    "$@" > /dev/null 2>&1
}

by_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
  echo "installing $* with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  apt install --yes --no-install-recommends "$@" ||
    { apt update; apt install --yes --no-install-recommends "$@"; }
}
