"""Catalog: endpoints, payload specs, configs and secrets, and the templates that combine them."""
