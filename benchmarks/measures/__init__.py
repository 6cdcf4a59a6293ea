"""What is measured, each in a run of its own or all in one."""
