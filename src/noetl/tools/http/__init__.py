"""The `http` tool. The entry point is tool.py."""
