"""Kernel: what every other package stands on."""
