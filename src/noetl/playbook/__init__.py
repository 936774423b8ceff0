"""What the author wrote: YAML with positions, read into a frozen playbook, every problem told at once."""
