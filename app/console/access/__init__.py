"""Access to the console: sessions, permissions, protection against requests of other sites."""
