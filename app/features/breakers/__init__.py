"""Breakers: a target whose deliveries keep failing is left alone for a while."""
