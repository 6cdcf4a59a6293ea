"""Worker, web and scheduler processes: heartbeats, leases of workers, commands to workers, regions."""
