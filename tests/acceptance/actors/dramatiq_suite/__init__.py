"""Dramatiq's own tests over TaskExecutorBroker: fixtures that take the place of Dramatiq's, and the outcomes."""
