"""The command line: reads files, prints what the floors below say, and turns errors into exit codes."""
