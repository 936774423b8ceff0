"""The routes of the API, one module for each area; every one of them says which scope it asks for."""
