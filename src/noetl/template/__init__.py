"""The expression language of playbooks. It imports no other package of NoETL."""
