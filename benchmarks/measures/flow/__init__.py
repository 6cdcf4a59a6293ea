"""Flow: what limits, priorities, overload and endpoints that misbehave do to all others."""
