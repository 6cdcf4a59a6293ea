"""What a row is: states and their legal transitions, tables, migrations."""
