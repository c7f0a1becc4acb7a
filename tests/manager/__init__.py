"""The manager: for many users at once, over time, and after a crash."""
