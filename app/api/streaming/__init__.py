"""Streams of events (Server-Sent Events) to many clients at once, by one thread of a web process."""
