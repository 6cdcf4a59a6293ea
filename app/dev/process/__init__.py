"""Programs as children of this process, and the ports, directories and proxies that they use."""
