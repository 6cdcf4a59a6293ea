"""Programs as children of this process, and the ports and directories that they use."""
