"""The `container` tool. The entry point is tool.py."""
