"""The generations of the language: the canonical form and its reader, and the way from v2 and v10 to it.

The engine knows the canonical form only; everything old stays in here.
"""
