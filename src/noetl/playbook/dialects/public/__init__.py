"""The front end for playbooks of the public NoETL: an ordered list of small rules over the layout of a document."""
