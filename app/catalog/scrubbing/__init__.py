"""Search for secrets in a text: their parts, spellings and escapes."""
