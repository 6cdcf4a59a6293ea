"""/jobs: each module adds its operations to the resource of `jobs_api`."""
