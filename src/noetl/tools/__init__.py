"""The built-in tools. Each kind has a module or a package; entry points `noetl.tools` name their classes.

Shared code: errors, paths, payload, jsonpath, sql/ (SQL databases) and process_guard/ (child processes).
"""
