"""Jobs: what makes them fire, and the rows that hold them."""
