"""Flow control: effects of limits, priorities, overload and misbehaving endpoints on other endpoints."""
