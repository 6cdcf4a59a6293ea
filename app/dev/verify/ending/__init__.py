"""After the end of executions in a run: callbacks, dead letters, redrives and notifications."""
