"""What runs in the sandboxes of these tests, by its own name and as a program of its own; only the standard library.

An address is a port, a path, or a port of IPv6 as "6:PORT".
"""

import array
import asyncio
import hashlib
import os
import random
import socket
import sys
import time


def dial(address: str) -> socket.socket:
    if address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(address)
        return sock
    six = address.startswith("6:")
    sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
    sock.connect(("::1" if six else "127.0.0.1", int(address.removeprefix("6:"))))
    return sock


def read_all(sock: socket.socket) -> bytes:
    found = b""
    while data := sock.recv(65536):
        found += data
    return found


def say(address: str, words: str) -> None:
    """Say something, then that this was all; what comes back."""
    with dial(address) as sock:
        sock.sendall(words.encode())
        sock.shutdown(socket.SHUT_WR)
        print(read_all(sock).decode(), end="")


def listening(address: str) -> socket.socket:
    if address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        sock.bind(address)
    else:
        six = address.startswith("6:")
        sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::1" if six else "127.0.0.1", int(address.removeprefix("6:"))))
    sock.listen(512)
    print(sock.getsockname() if address.startswith("/") else sock.getsockname()[1], flush=True)
    return sock


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
        await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()


def echo(address: str) -> None:
    """A server that says everything again."""
    sock = listening(address)

    async def serve() -> None:
        start = asyncio.start_unix_server if address.startswith("/") else asyncio.start_server
        server = await start(_echo, sock=sock)
        await server.serve_forever()

    asyncio.run(serve())


def many(address: str, count: str, size: str) -> None:
    """So many clients at once: each sends bytes of its own, and has to get just these back."""

    async def one(number: int) -> bool:
        source, sent, got = random.Random(number), hashlib.sha256(), hashlib.sha256()
        sock = await asyncio.to_thread(dial, address)
        reader, writer = await asyncio.open_connection(sock=sock)

        async def send() -> None:
            left = int(size)
            while left:
                piece = source.randbytes(min(left, source.randrange(1, 60000)))
                left -= len(piece)
                sent.update(piece)
                writer.write(piece)
                await writer.drain()
            writer.write_eof()

        sending = asyncio.create_task(send())
        while data := await reader.read(65536):
            got.update(data)
        await sending
        writer.close()
        return sent.digest() == got.digest()

    async def all_of_them() -> None:
        print(sum(await asyncio.gather(*(one(number) for number in range(int(count))))))

    asyncio.run(all_of_them())


def push(address: str) -> None:
    """Send until it goes no further for a second; how much went."""
    sent = 0
    with dial(address) as sock:
        sock.settimeout(1)
        try:
            while True:
                sent += sock.send(bytes(65536))
        except TimeoutError:
            print(sent, flush=True)
        sys.stdin.read()


def deaf(address: str) -> None:
    """A server that accepts and does not read."""
    held = []
    sock = listening(address)
    while True:
        held.append(sock.accept())


def talker(address: str, size: str) -> None:
    """A server that talks much to everybody, and hears nothing."""
    held = []
    sock = listening(address)
    while True:
        held.append(sock.accept()[0])
        held[-1].setblocking(True)
        try:
            held[-1].settimeout(2)
            held[-1].sendall(bytes(int(size)))
        except OSError:
            pass


def vanish(address: str, count: str) -> None:
    """Connect and be gone, in several ways."""
    for number in range(int(count)):
        sock = dial(address)
        if number % 3 == 1:
            sock.sendall(b"half a wo")
        if number % 3 == 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.sendall(b"cut off")
        sock.close()


def killed(address: str) -> None:
    """Connect, say something, and die."""
    sock = dial(address)
    sock.sendall(b"my last words")
    os.kill(os.getpid(), 9)


def hold(address: str, count: str) -> None:
    """Hold so many connections; how many could be made."""
    held = []
    for _ in range(int(count)):
        held.append(dial(address))
        held[-1].sendall(b"x")
    print(len(held), flush=True)
    sys.stdin.read()


def rights(address: str, count: str) -> None:
    """Send descriptors along: the reading ends of pipes, whose other ends tell when the last one is closed."""
    ends = [os.pipe() for _ in range(int(count))]
    with dial(address) as sock:
        for reading, _ in ends:
            sock.sendmsg([b"take this"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reading]))])
            os.close(reading)
        sock.shutdown(socket.SHUT_WR)
        said = len(read_all(sock))
    until = time.monotonic() + 20
    while time.monotonic() < until and any(is_read(writing) for _, writing in ends):
        time.sleep(0.01)
    print(said, sum(is_read(writing) for _, writing in ends))


def is_read(writing: int) -> bool:
    """Whether anybody holds the other end."""
    try:
        os.write(writing, b"x")
    except BrokenPipeError:
        return False
    return True


def garbage(address: str, seed: str) -> None:
    """Bytes that mean nothing, in pieces of all sizes; and frames, in case somebody takes them for some."""
    source = random.Random(int(seed))
    for _ in range(20):
        with dial(address) as sock:
            try:
                for _ in range(source.randrange(1, 20)):
                    sock.sendall(source.randbytes(source.randrange(1, 5000)))
                    sock.sendall(b"\0\0\0\0\3\0\0\0\7\0\0\0")  # END, if it were one
                    sock.sendall(b"\0\0\0\0\x91\1\0\0\1\0\0\0")
            except OSError:
                pass


def reach(address: str) -> None:
    """Whether somebody is there."""
    try:
        dial(address).close()
    except OSError as error:
        print(type(error).__name__)
    else:
        print("reached")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
