"""How a secret can be told in a text: its parts, its spellings, and the escapes that it hides behind."""
