"""One file per tool kind, found through the entry points `noetl.tools`, never imported by name."""
