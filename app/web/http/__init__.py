"""HTTP conventions of all resources: bodies, fields, conditions, pages, errors, limits."""
