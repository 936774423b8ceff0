"""A tool for NoETL: checks whether a server accepts connections."""
