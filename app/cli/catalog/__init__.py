"""`flask catalog`: payload specs, configs, endpoints and routes as a YAML document."""
