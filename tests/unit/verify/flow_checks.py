"""Names of the checks of flow."""

IN_FLIGHT = "no limit of deliveries in flight is passed"
RATE = "no rate is passed"
PRIORITY = "higher priorities go first"
ORDER = "what is due first goes first"
PROGRESS = "no endpoint is left without progress"
BREAKERS = "breakers open, probe once and close"
FLOW = {IN_FLIGHT, RATE, PRIORITY, ORDER, PROGRESS, BREAKERS}
