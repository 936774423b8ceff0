"""The log, catalog, inbox and listing of an embedded deployment, in one SQLite file that processes share."""
