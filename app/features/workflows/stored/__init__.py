"""Workflows as they are stored: rows of workflows, nodes and edges, and values that are read from them."""
