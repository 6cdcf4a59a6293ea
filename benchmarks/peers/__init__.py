"""Programs of the peers, each written as its own documentation advises; they import nothing of the product."""
