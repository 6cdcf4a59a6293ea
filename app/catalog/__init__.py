"""The catalogue: payload specs, configs, secrets, endpoints and the templates that tie them together."""
