"""Flow: what keeps targets and tenants apart: limits, breakers, and the routes from endpoints to queues."""
