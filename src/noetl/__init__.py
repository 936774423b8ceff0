"""NoETL runs playbooks: YAML documents that orchestrate APIs, databases and scripts."""

__version__ = "0.1.0"
__all__ = ["__version__"]
