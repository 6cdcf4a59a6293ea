"""Events: everything that happened, in one order, as a list and as Server-Sent Events."""
