"""Generator of client modules from an OpenAPI document: `make client`. Not part of the installed package."""
