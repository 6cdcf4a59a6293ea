"""Report of a run: tables, a plot, and the steadiness of the machine."""
