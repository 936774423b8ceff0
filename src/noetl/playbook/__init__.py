"""Playbooks: YAML with positions, the language, the reader with its problems, the writer, and migration."""
