"""The compiled playbook: one compiler, the net that it makes, and descriptions of its parts.

This package does not know how playbooks are stored, scheduled or run. It uses no clock, socket, file or log.
"""
