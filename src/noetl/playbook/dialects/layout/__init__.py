"""Round-trip YAML: a concrete syntax tree that keeps white space, quotes and comments."""
