"""The `object` tool. The entry point is tool.py."""
