"""Rules of workflows: their graphs and values, and plans of retries; nothing here reads the database."""
