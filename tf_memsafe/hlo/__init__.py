"""The program as a graph: nodes, ops, reader, writer, builders. It knows nothing of limits."""
