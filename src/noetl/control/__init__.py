"""The engine on top of the ports: the single writer of executions, with dispatch, timers and a sweeper."""
