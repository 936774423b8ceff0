"""A regular package: a development dependency installs a package `tests` of its own, which would hide a folder."""
