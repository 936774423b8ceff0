"""The embedded house's disk: log, catalog, inbox and lists in one SQLite file that processes share."""
