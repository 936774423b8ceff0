"""The `transfer` tool: rows from one database, file or object to another."""
