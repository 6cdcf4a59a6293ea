"""Jobs: operations on jobs, and their rows."""
