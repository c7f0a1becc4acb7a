#!/bin/sh
# Sees to it that there are container engines for the tests to start: Docker, Podman and gVisor, and a busybox for their images.
# Only programs are wanted: nothing that is installed here is started as a service. What is missing in the end is said in one
# line, the tests that need it are skipped, and all else still works.
set -u
cd "$(dirname "$0")/.."
. scripts/apt.sh
PATH=$PATH:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d

package() {
  case $1 in
    dockerd) echo docker.io ;;
    busybox) echo busybox-static ;;
    *) echo "$1" ;;
  esac
}

missing() {
  for program in dockerd containerd runc podman runsc busybox; do
    command -v $program > /dev/null || package $program
  done
}

restore() {
  rm -f $policy
  if [ -e $policy.before ]; then mv $policy.before $policy; fi
}

install_quietly() {
  if [ -e $policy ]; then mv $policy $policy.before; fi
  trap restore EXIT
  trap 'exit 1' HUP INT TERM
  { printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy; } || return
  by_apt "$@" || for each in "$@"; do [ $# -gt 1 ] && apt install --yes --no-install-recommends "$each"; done
}

wanted=$(missing)
[ -z "$wanted" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then install_quietly $wanted; fi
wanted=$(missing)
[ -z "$wanted" ] || echo "not all container engines are here; some tests are skipped for want of:" $wanted >&2
exit 0
