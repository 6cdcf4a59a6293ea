"""Bounds of a workflow."""

MAX_NODES = 10_000
MAX_EDGES = 100_000
MAX_ITEMS = 10_000  # of one node
MAX_ALL_ITEMS = 100_000  # of all nodes of a workflow; lists count when they begin
MAX_DEFINITION_BYTES = 16_384  # of a node, and of each member of a group
MAX_GROUP_BYTES = 1_048_576  # of all members of a group
MAX_DEPTH = 8  # workflows from the outermost to the innermost
MAX_OUTPUT_BYTES = 16_384  # of a workflow, as of an answer
MIN_DEADLINE_MS = 1_000
MAX_BODY_BYTES = 16_777_216
