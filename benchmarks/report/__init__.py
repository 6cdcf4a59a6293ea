"""What is said about a run: a table, a plot, and whether the machine was steady."""
