"""API keys: storing and verifying them. No Flask."""
