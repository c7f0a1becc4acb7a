"""Models for sandboxes without keys inside: one service for all sandboxes of a process, with a token for each."""
