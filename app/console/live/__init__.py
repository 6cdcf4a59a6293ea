"""Changes as they happen: the pulse, a stream of the kinds of changed data."""
