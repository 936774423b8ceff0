"""The `sqlite` tool and its parts; the entry point is in tool.py."""
