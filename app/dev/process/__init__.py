"""Child processes with their ports, directories and proxies."""
