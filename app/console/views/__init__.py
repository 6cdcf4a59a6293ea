"""Views: values for templates, made by pure functions without Flask and database."""
