"""The protocol between servers and workers."""
