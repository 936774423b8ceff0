"""The log, catalog and listing of a cluster, in PostgreSQL. asyncpg is imported only if it is configured."""
