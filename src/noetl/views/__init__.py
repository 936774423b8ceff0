"""Read models of an execution: pure functions over its log, which make no decisions."""
