"""What an operator asks of the whole service: its queues, workers and figures."""
