"""Supervised child processes for tools that run programs."""
