"""The blocking twin of a session."""

from paddock import Chunk, RichOutput, sync


def test_blocking() -> None:
    heard: list[Chunk | RichOutput] = []
    with sync.Sandbox.create("namespaces") as sb, sync.PythonSession(sb, kernel="builtin") as one:
        assert one.run("x = 1\nprint(x)\nx + 1", on_output=heard.append).text == "2"
        assert one.run("x").text == "1"
        one.reset()
        assert not one.run("x").success
    assert heard[0] == Chunk("stdout", b"1\n")
