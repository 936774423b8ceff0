"""`mcp`: calls a tool of a server that speaks the Model Context Protocol."""
