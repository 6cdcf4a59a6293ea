"""OpenAPI document: its contents, and the resource class by which every operation gets into it."""
