"""Assembles runtimes from settings: embedded on one file, or servers and workers on PostgreSQL and NATS."""
