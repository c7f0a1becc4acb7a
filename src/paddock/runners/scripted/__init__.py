"""The program of the scripted agent. It is shown to sandboxes, and runs there."""
