"""Credential sources: one provider for each kind of keychain entry, and one for all kinds."""
