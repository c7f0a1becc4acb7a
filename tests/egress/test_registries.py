"""pip and npm, from the registries that this machine is configured for: with just those hosts, and without them."""

import json
import os
import shutil
import socket
import subprocess
import sys
from functools import cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest

from paddock import ExecResult, Namespaces, Network, Sandbox
from paddock.types.addresses import why_refused

PYTHON_PACKAGE, NODE_PACKAGE = "iniconfig", "is-number"
_TRUST = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
_SECONDS = 60


def _asked(*words: str, **env: str) -> str | None:
    """What a program of this machine says; None if it does not know."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, env={**os.environ, **env})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


@cache
def _index() -> tuple[str, str] | None:
    """Where pip looks, and where it would get a package from."""
    pip = (sys.executable, "-m", "pip")
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    index = _asked(*pip, "config", "get", "global.index-url") or _asked(sys.executable, "-c", default)
    if index is None:
        return None
    words = ("install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed", "--retries", "0", "--report", "-")
    report = _asked(*pip, *words, "--index-url", index, PYTHON_PACKAGE, PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="")
    return None if report is None else (index, json.loads(report)["install"][0]["download_info"]["url"])


@cache
def _registry() -> tuple[str, str] | None:
    if shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin") is None:
        return None
    registry = _asked("npm", "config", "get", "registry")
    tarball = _asked("npm", "view", "--fetch-retries=0", NODE_PACKAGE, "dist.tarball")
    return None if registry is None or tarball is None else (registry, tarball)


def _network(*urls: str, named: bool = True) -> Network:
    """Just the hosts of these; their addresses where they are private ones, unless they are not to be `named`."""
    hosts = {urlsplit(url).hostname or "" for url in urls}
    found = {ip_address(one[4][0]) for host in hosts for one in socket.getaddrinfo(host, 443)}
    private = [f"{address}/{address.max_prefixlen}" for address in found if why_refused(address, ())]
    return Network.allow(*hosts, private=private if named else ())


def _trusting() -> dict[str, str]:
    return {name: os.environ[name] for name in _TRUST if name in os.environ}


async def _pip(sb: Sandbox, index: str) -> ExecResult:
    words = (
        f"v/bin/pip install --retries 1 --no-deps --no-cache-dir --force-reinstall --index-url {index} {PYTHON_PACKAGE}"
    )
    return await sb.exec(words, timeout=_SECONDS, env=_trusting())


async def test_pip() -> None:
    known = _index()
    if known is None:
        pytest.skip("there is no index for pip that answers")
    async with Sandbox.create(Namespaces(), network=_network(*known)) as sb:
        await sb.exec("python3 -m venv v", check=True, timeout=_SECONDS)
        done = await _pip(sb, known[0])
        assert done.exit_code == 0, done.stdout + done.stderr
        await sb.exec(f"v/bin/python -c 'import {PYTHON_PACKAGE}'", check=True)
        await sb.set_network(Network.allow("example.org"))
        done = await _pip(sb, known[0])
        assert done.exit_code != 0
        assert "is not in this sandbox's network policy" in done.stdout + done.stderr


async def test_npm() -> None:
    known = _registry()
    if known is None:
        pytest.skip("there is no npm, or no registry for it that answers")
    install = f"npm install --fetch-retries=0 --registry {known[0]} {NODE_PACKAGE}"
    async with Sandbox.create(Namespaces(), network=_network(*known), env=_trusting()) as sb:
        done = await sb.exec(install, timeout=_SECONDS)
        assert done.exit_code == 0, done.stdout + done.stderr
        await sb.exec(f"node -e 'require(\"{NODE_PACKAGE}\")'", check=True)
        await sb.exec("rm -rf node_modules package* ~/.npm", check=True)
        unnamed = _network(*known, named=False)
        for network in [Network.allow("example.org"), *([unnamed] if unnamed != _network(*known) else [])]:
            await sb.set_network(network)
            done = await sb.exec(install, timeout=_SECONDS)
            assert done.exit_code != 0
            assert "The person who runs this sandbox can allow it" in done.stdout + done.stderr
