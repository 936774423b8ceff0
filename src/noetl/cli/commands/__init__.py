"""One module for each command, named after it: its options and help, and its implementation."""
