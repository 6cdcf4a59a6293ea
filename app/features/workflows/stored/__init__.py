"""Workflows as they are stored: rows of workflows, nodes and edges, and what is read from them."""
