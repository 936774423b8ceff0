"""Contracts of the ports as test classes; an adapter's test subclasses one."""
