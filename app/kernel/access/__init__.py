"""API keys and signing keys: storage and verification, without Flask."""
