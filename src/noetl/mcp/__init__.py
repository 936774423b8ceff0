"""The verbs of a session as tools of the Model Context Protocol, for programs that write and run playbooks."""
