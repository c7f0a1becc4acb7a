"""What must not be possible in a sandbox of an isolating backend; and beside each such thing, one like it that must be."""
