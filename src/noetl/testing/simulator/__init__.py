"""A deterministic simulator: virtual time, simulated failures, whole clusters in one thread."""
