"""Features: each folder is one capability that can be removed."""
