"""The `quantum` tool. The entry point is tool.py."""
