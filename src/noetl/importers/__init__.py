"""Playbooks from descriptions of other systems, as pure functions from a document to texts."""
