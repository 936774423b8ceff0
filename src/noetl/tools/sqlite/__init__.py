"""The `sqlite` tool. The entry point is tool.py."""
