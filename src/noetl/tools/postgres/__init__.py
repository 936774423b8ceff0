"""The `postgres` tool. The entry point is tool.py."""
