"""Pages of the console for notification rules."""
