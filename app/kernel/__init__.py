"""Kernel: the basis of all other packages."""
