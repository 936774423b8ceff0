"""YAML text as a tree that keeps every blank, quote and comment, for rewriting in place."""
