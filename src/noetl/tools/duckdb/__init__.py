"""The `duckdb` tool. The entry point is tool.py."""
