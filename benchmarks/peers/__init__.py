"""Programs of the peers, written as their documentation advises; they import nothing of the product."""
