"""Sandboxes as other frameworks know them: a module for each, over nothing but `Sandbox`, imported by who uses it."""
