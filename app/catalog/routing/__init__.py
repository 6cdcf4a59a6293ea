"""Routing: assignment of endpoints to queues."""
