"""Jobs: the operations on them, and their rows."""
