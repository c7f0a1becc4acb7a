#!/bin/sh
# Sees to it that there are git, openssl and an ssh server for the tests; root gets the system's packages, and nothing is started as
# a service. Without them the tests that need them are skipped.
cd "$(dirname "$0")/.."
. scripts/apt.sh
PATH=$PATH:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d

quietly() {
  if [ -e $policy ]; then by_apt "$@"; return; fi
  trap 'rm -f $policy' EXIT
  trap 'exit 1' HUP INT TERM
  { printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy; } || return
  by_apt "$@"
}

wanted=
command -v git > /dev/null || wanted="git"
command -v sshd > /dev/null || wanted="$wanted openssh-server"
command -v ssh > /dev/null || wanted="$wanted openssh-client"
command -v openssl > /dev/null || wanted="$wanted openssl"
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ]; then quietly $wanted; fi
exit 0
