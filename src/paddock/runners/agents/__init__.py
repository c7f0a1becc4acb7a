"""The agents, a file each: how their programs are started, and what their lines mean. Nothing here runs anything."""
