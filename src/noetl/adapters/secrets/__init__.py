"""Where credentials come from: one class for each kind of keychain entry, behind one that chooses."""
