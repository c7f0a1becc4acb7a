"""Programs that people use go on working."""

import shutil
from collections.abc import Iterator

import pytest

from seccomp.inside import BASE, BOTH, Inside, inside

PYTHON = """
import asyncio, concurrent.futures, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
assert subprocess.run(["true"]).returncode == 0
async def main():
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await process.communicate(b"x"))[0] == b"x"
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close(); server.close()
asyncio.run(main())
if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
assert "lo" in [name for _, name in socket.if_nameindex()]
sqlite3.connect("db").execute("create table t (a)")
with tempfile.TemporaryFile() as file: file.write(b"x")
os.replace("db", "other")
"""
PROGRAMS = {
    "python3": f"cat >p.py <<'END'\n{PYTHON}\nEND\npython3 p.py",
    "git": "git init -q . && git config user.email a@b && git config user.name n && echo a >f && git add f && "
    "git commit -qm one && git checkout -qb two && git clone -q . ../$$ && git gc -q && git fsck",
    "gcc": "echo 'int main(void) { return 0; }' >a.c && gcc -O2 -pthread a.c && ./a.out && "
    "echo 'all: b' >Makefile && { make -s b 2>/dev/null; true; }",
    "node": 'node -e \'const fs = require("fs"); const { Worker } = require("worker_threads"); '
    'fs.promises.writeFile("f", "x").then(() => fs.promises.cp("f", "g")).then(() => '
    'new Worker("require(`child_process`).execFileSync(`true`)", { eval: true }).on("exit", code => process.exit(code)))\'',
    "npm": 'npm --version && npm init -y && mkdir d && echo \'{"name": "d", "version": "1.0.0"}\' >d/package.json && '
    "npm install --offline ./d && npm pack --offline",
    "tar": "mkdir d && echo x >d/f && ln -s f d/l && tar cf t.tar d && mkdir e && tar xf t.tar -C e && cmp d/f e/d/f",
    "cp": "mkdir d && echo x >d/f && ln -s f d/l && chmod 750 d && cp -a d e && diff -r d e && mv e h && rm -r d && "
    "install -m 755 h/f i && mkfifo p && touch -d yesterday i && df . && sort h/f && stat h && ls -la",
    "rsync": "mkdir d && echo x >d/f && rsync -a d/ e && cmp d/f e/f",
    "java": "java -version",
    "perl": "perl -e 'my $pid = fork // die; exit unless $pid; waitpid $pid, 0; mkdir \"d\" or die'",
    "script": "script -qec true /dev/null </dev/null",
}


@pytest.fixture(scope="module", params=[BASE, BOTH])
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with inside(request.param, tmp_path_factory.mktemp("programs")) as there:
        yield there


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program(program: str, filtered: Inside) -> None:
    if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip(f"there is no {program} here")
    code, text = filtered.run(PROGRAMS[program])
    assert code == 0, text
