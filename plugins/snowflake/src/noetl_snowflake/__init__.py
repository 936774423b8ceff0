"""The `snowflake` tool. The entry point is tool.py."""
