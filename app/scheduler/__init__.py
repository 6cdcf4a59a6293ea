"""Scheduler process and the chores of the kernel.

Any number of schedulers may run at once, without a leader: each statement decides by the rows that it reads.
"""
