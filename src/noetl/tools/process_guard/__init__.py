"""Supervised child processes, for the tools that run programs."""
