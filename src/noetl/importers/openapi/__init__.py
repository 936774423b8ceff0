"""OpenAPI 3.0 and 3.1: a playbook with a block for each operation."""
