"""Who may use the API: keys as they are stored, and the ring that verifies them. No Flask."""
