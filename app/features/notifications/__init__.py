"""Notifications: what people are told of, as jobs of endpoints."""
