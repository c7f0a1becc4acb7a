"""The host's side of the channel to a supervisor: its bytes, its calls, and directories over it. No backend, no policy."""
