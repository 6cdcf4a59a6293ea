"""Server: gunicorn's threaded worker with overload protection and suspended requests."""
