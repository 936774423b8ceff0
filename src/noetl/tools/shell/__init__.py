"""The `shell` tool. The entry point is tool.py."""
