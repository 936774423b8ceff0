"""The `nats` tool. The entry point is tool.py."""
