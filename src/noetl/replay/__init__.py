"""Playbooks run in memory on recorded or given answers: tests, what-if and cassettes.

Control, worker and pipeline are the real ones. Only calls with an effect are answered here.
"""
