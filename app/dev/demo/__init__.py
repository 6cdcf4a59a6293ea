"""The demo: jobs of every trigger, delivered by every transport, and the proof that they arrived."""
