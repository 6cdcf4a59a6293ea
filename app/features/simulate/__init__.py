"""Simulation: what repeating jobs would start in the time to come."""
