"""Dead letters: failed executions, listed until somebody retries, redrives or archives them."""
