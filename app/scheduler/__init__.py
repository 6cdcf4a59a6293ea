"""The scheduler process: chores that keep executions moving.

Any number of schedulers may run at once, without a leader: each statement decides by what it finds in the rows.
"""
