"""Queues: pause and resume a queue; routes from endpoints to queues."""
