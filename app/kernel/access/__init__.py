"""API keys and signing keys: storing and verifying them. No Flask."""
