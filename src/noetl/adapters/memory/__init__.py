"""Everything in this process: for tests, for the simulator, and for trying things out without a disk."""
