"""Administration on the command line: `flask --app app ...`.

The commands are entry points of Flask's (pyproject.toml): `--help` lists them, and what needs no database works, where
no application can be built.
"""
