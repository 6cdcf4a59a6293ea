"""Connections of the processes that run actors: frames, sessions and the server of a worker process."""
