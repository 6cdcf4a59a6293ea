"""Administration on the command line: `flask --app app ...`.

The commands are entry points for Flask (pyproject.toml): even without a valid configuration `--help` lists them, and
those that need no database work.
"""
