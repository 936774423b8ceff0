"""What people see of an execution: pure functions over its log, which decide nothing."""
