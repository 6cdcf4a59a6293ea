"""Events of a run: a stream of the API, read with many reconnections, and its comparison with the rows."""
