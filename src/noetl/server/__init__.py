"""The HTTP API: routes over the ports. It makes no decisions of its own and imports no adapter."""
