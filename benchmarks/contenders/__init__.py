"""What is compared: one module a library, in it a function for each kind of work.

Each takes the data, a dict of NumPy arrays, and the case's options; it prepares what its user would
prepare once, and returns a call without arguments. The call returns when its results are there.
"""
