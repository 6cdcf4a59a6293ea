"""`flask doctor`: what is wrong with the database and with what it holds, and how to put it right."""
