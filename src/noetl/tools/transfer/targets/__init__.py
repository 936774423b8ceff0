"""Where a transfer writes to: one module for each system, so that its library is imported only when it is used."""
