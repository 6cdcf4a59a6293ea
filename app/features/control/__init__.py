"""Figures of the whole service: what waits, what holds it back, who works, and how deliveries fare.

Each read is bounded, however much waits or has ended.
"""
