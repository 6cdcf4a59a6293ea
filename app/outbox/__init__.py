"""What follows the ends of executions: the effects of each, exactly once (ARCHITECTURE.md, "Ends")."""
