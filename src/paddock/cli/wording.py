"""Hints of the library name Python calls; here they name what can be typed instead."""

import re

_INSTEAD = (
    (r"pass overwrite=True where the call takes it", "use --overwrite where the command takes it"),
    (r"pass overwrite=True", "use --overwrite"),
    (r"with overwrite=True neither", "with --overwrite neither"),
    (r"branches\(\) lists those that there are", "Give another with --branch"),
    (r"staged\(\) lists them", "`paddock git staged` lists them"),
    (r"restage\(\) puts", "`paddock git restage` puts"),
    (r"snapshots\(\) lists", "`paddock snapshots list` lists"),
    (r"one of snapshots\(\)", "one of `paddock snapshots list`"),
    (r"Call changes\(\) again and look at what is there now", "Look at it again with `paddock review show`"),
    (
        r"Call changes\(\) (?:again and look at|again to see|to see) what (is left|there is now)",
        r"`paddock review list` has what \1",
    ),
    (r"processes\(\) lists those that (?:do|run)", "Leave it out for the oldest that runs"),
    (r", or pass Limits\(\.\.\., best_effort=True\)", ""),
    (r"Give it more with max_turns", "Give it more with --max-turns"),
    (r"Give it more with timeout", "Give it more with --timeout"),
    (r"give key= to the runner, and network=Network\.allow\(", "give --key NAME, and --allow "),
    (r"\) to the sandbox\.", "."),
    (r"Leave key= out", "Leave --key out"),
    (r"Program\('acp', \('its-command', '--acp'\)\)", "--program 'its-command --acp'"),
    (r"Leave it out, and use timeout", "Leave it out, and use --timeout"),
    (r"Give model=, or", "Give --model, or"),
    (r"or be more patient", "or give it more --patience"),
    (
        r"Show it to the sandbox with mounts=, or use an image that has it",
        "Show it to the sandbox with --mount, or use an --image that has it",
    ),
    (r"Or use an image that has it", "Or use an --image that has it"),
    (r"Give name= or rename=, or revoke the other one", "Give a server a name, as in --mcp NAME=SERVER"),
    (r"Give name=\.", "Give it one, as in --mcp NAME=SERVER."),
    (r"Give name=, up to", "Give it one, as in --mcp NAME=SERVER, up to"),
    (r"(a private workspace) and upload\(\)", r"\1"),
    (r"use review=True", "use --review"),
    (r"with review=True", "with --review"),
    (r"Sandbox\.find\(\) and `paddock ps` list", "`paddock ps` lists"),
    (r"pass force=True", "use --force"),
    (r"with state=", "with --state"),
    (r"as state=", "as --state"),
    (r"Such as workspace=\"", 'Such as --workspace "'),
    (r"as workspace= or cache=", "as --workspace or --cache"),
    (r"such as workspace=\"\.\"", "such as --workspace ."),
    (r"; or allow_checked_out=True in the GitContext", ""),
    (r"Pass a larger timeout=, or use start\(\) for long work", "Give it more with --timeout"),
    (r"Create a new one with Sandbox\.create\(\)", "Make a new one"),
    (r"Look at cwd=", "Look at --workdir"),
    (r"without pty=True", "without --tty"),
    (r"Name that host in Network\.allow\(\.\.\.\) too", "Give --allow for that host, too"),
    (r", or give value=", ""),
    (r", and tls=True for HTTPS", ", and https:// before it for HTTPS"),
    (r"Network\.open\(\) is for all of them", "There is no option for all of them"),
    (r"Such as private=\(\"10\.0\.0\.0/8\",\) or \"fd12::/16\"", "Such as --private 10.0.0.0/8"),
    (r'list\("/"\) names what is reachable', "Name a path in one of its mounts"),
)


def for_a_shell(hint: str) -> str:
    """A hint in the words of the command line."""
    for python, typed in _INSTEAD:
        hint = re.sub(python, typed, hint)
    return hint
