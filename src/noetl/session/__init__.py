"""The verbs on playbooks and executions: one protocol, implemented on a database file and on a server."""
