"""REST API: parse a request, call the queue or the catalog, format the answer."""
