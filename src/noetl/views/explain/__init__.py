"""Explanations for people: a playbook, one task, and why a step ran, waited or did not run."""
