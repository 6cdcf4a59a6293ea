"""`flask catalog`: payload specs, configs, endpoints, routes and rules as a YAML document."""
