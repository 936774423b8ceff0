"""The `python` tool. The entry point is tool.py."""
