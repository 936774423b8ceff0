"""The engine on the ports: the single writer of an execution, its grants, its timers and its sweeper."""
