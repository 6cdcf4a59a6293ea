"""Names of the verifier's checks of workflows."""

ONCE = "each node of a workflow has one job"
ORDER = "nodes start after the nodes before them"
ENDS = "each workflow ends"
WORKFLOWS = {ONCE, ORDER, ENDS}
