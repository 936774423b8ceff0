"""Operational defaults: each number that several modules, options or settings share is defined here once."""

from __future__ import annotations

from typing import Final

LEASE_S: Final = 30.0  # of a granted frame, and of a server's partitions
SWEEP_S: Final = 2.0  # between two sweeps
SETTLE_S: Final = 2.0  # for workers to report the frames that they hold to a new owner
POOL: Final = "default"  # of workers, for steps that name no other
HOST: Final = "127.0.0.1"  # that servers listen on
PORT: Final = 8080
EMBEDDED_SLOTS: Final = 64  # calls at once in one process (D87); CPU-bound tools have their own lower limits
WORKER_SLOTS: Final = 16  # calls at once in a worker process
WORKER_SLOTS_MAX: Final = 1_024
STATE_BYTES: Final = 1 << 30  # of all executions in the memory of a server, as JSON, if the server has enough memory
STATE_MEMORY_SHARE: Final = 16  # a sixteenth of the memory: states of small values need 11 times their size as JSON
TOOL_NICE: Final = 10  # how much lower the priority of programs of tasks is than that of their server
SLOT_RESERVE: Final = 0.125  # the share of a pool's slots that one execution leaves to others
EMBEDDED_GRACE_S: Final = 5.0  # for running calls when the embedded runtime closes
WORKER_GRACE_S: Final = 10.0  # for running calls when a worker process stops
CANCEL_GRACE_S: Final = 10.0  # for running calls of a cancelled execution
NOTIFY_WAIT_S: Final = 60.0  # for the notifications of an execution, after its end, in the process that ran it
LOG_CALL_BYTES: Final = 1 << 20  # of the lines that one call prints
LOG_EXECUTION_BYTES: Final = 1 << 26  # of the lines that the calls of one execution print
SESSION_HOURS: Final = 12.0  # of a session of the web UI, from the sign-in
SESSION_IDLE_HOURS: Final = 2.0  # a session without requests for this time ends
OIDC_SCOPES: Final = "openid profile email"
OIDC_GROUPS_CLAIM: Final = "groups"
DEV_WORKERS: Final = 2  # worker processes of `noetl up`
