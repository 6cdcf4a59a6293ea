"""/payload-specs, /configs, /secrets and /endpoints."""
