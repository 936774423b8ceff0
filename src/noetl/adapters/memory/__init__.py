"""Adapters within one process, for tests, the simulator and experiments."""
