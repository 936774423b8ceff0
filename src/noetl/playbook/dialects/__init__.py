"""Migration of the older dialects v2 and v10 to the canonical form.

Only this package knows the older dialects. The rest of NoETL handles the canonical form only.
"""
