"""An independent audit of a log: invariants that hold for every correct log."""
