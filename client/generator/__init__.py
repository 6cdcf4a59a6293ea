"""Writes the client's generated modules from an OpenAPI document: `make client`. No part of what is installed."""
