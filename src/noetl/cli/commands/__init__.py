"""One module for each command or a few related ones: options and help, and the implementation."""
