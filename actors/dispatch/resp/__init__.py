"""Redis client of the deliveries: commands of many deliveries on one connection, in the protocol RESP2.

What waits to be sent at the same moment is sent at once, and answers come in the order of the commands. As for HTTP,
nothing is sent twice, and an answer is read only as far as one to our commands may go.
"""
