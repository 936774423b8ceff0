"""What the distributed house keeps in PostgreSQL; asyncpg is imported only when it is configured."""
