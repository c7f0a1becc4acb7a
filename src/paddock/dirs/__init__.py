"""Directories as the file layer sees them: the `Dir` protocol and who implements it. No policy, no sandbox paths."""
