"""What HTTP is here: bodies, fields, conditions, pages, errors, limits; nothing of one resource."""
