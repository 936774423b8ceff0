"""Implementations of ports, one package for each external system. Only runtime and tests import them."""
