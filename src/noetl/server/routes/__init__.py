"""The routes of the API, one module for each area. Every route names the scope that it needs."""
