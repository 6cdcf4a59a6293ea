"""OpenAPI document: contents, and the resource class that registers every operation."""
