"""The net: a playbook, compiled. Templates, expressions and the checks that need them live here.

It must not know how a playbook is stored, scheduled or run; it reaches no clock, socket, file or log.
"""
