"""Names of the verifier's checks of flow control."""

IN_FLIGHT = "no limit of deliveries in flight is exceeded"
RATE = "no rate is exceeded"
PRIORITY = "higher priorities go first"
ORDER = "earlier due times go first"
PROGRESS = "every endpoint makes progress"
BREAKERS = "breakers open, probe once and close"
FLOW = {IN_FLIGHT, RATE, PRIORITY, ORDER, PROGRESS, BREAKERS}
