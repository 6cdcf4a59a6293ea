"""What the OpenAPI document says, and the resource class by which every operation gets into it."""
