"""Forks (D114): a new execution of a corrected playbook that keeps the finished work of an older one. Pure."""
