#!/bin/sh
# Gets what Paddock is measured beside and that is no part of its tests, in the versions of requirements/peers, into the
# directory that is named; npm is that of scripts/agents.sh where this host has none. What cannot be had is said, is not
# measured, and is tried again the next time.
set -u
cd "$(dirname "$0")/.."
. scripts/apt.sh
place=$1
python=$2
wanted=requirements/peers

# srt does not run without these.
for program in rg socat; do
  command -v $program > /dev/null || by_apt "$([ $program = rg ] && echo ripgrep || echo $program)" ||
    echo "srt is not measured: there is no $program" >&2
done

cat $wanted/* | cmp -s - "$place/.installed" && exit 0
rm -rf "$place" && "$python" -m venv "$place" || exit 1
all=yes
"$place/bin/python" -m pip install --disable-pip-version-check --quiet --require-hashes -r $wanted/peers.lock ||
  { all=no; echo "SWE-ReX is not measured: pip could not get it" >&2; }
cp $wanted/package.json $wanted/package-lock.json "$place"
npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund --silent ||
  { all=no; echo "srt is not measured: npm could not get it" >&2; }
[ $all = no ] || cat $wanted/* > "$place/.installed"
