"""Stack for tests of users: the whole product over a database whose clock can be moved.

`python -m app.dev.testing` runs it for the pytest plugin `task_executor_client.testing`; README.md beside this file
has the decisions. The product has no part in it: no setting and no statement of a normal start can move its time.
"""
