"""The verifier: runs the product under faults and proves its promises from both sides.

Jobs go in through the API; afterwards the rows of the database and the records of the receivers are compared. It may
import the development stack; nothing imports it but the command `flask --app app verify`, and only when that is run.
"""
