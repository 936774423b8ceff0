"""How much the tests do: `make test` is a quick run without services, `make test-all` is everything at full size."""

from __future__ import annotations

import os
from typing import Final

FULL: Final = os.environ.get("NOETL_TESTS") == "all"
NO_SERVICES: Final = os.environ.get("NOETL_TESTS") == "quick"  # `make test`: starting a service is an error

# Paths below tests/ that the quick run leaves out: they start PostgreSQL, NATS, a browser or many processes, build a
# wheel, or take longer than the quick run has time for.
FULL_ONLY: Final = (
    "api/test_agents",
    "api/test_auth",
    "api/test_call_logs",
    "api/test_debug",
    "api/test_decisions",
    "api/test_middleware",
    "api/test_oidc",
    "api/test_openapi",
    "api/test_operations",
    "api/test_roles",
    "api/test_sessions",
    "api/test_static",
    "api/test_streams",
    "api/test_trials",
    "browser",
    "chaos",
    "contracts/test_nats",
    "contracts/test_objects",
    "contracts/test_postgres",
    "distributed",
    "e2e",
    "hostile/test_disk_full",
    "hostile/test_power_loss",
    "hostile/test_attack",
    "hostile/test_hostile_inputs",
    "hostile/test_json_bombs",
    "hostile/test_runaway",
    "hostile/test_templates",
    "hostile/test_versions",
    "replay/test_databases",
    "unit/net/test_template_hostile",
    "unit/tools/mcp/",
    "unit/tools/object/",
    "unit/tools/nats/",
    "unit/tools/postgres/",
    "unit/tools/test_duckdb",
    "unit/tools/test_postgres",
    "unit/tools/test_python_places",
    "unit/tools/test_quantum",
    "unit/tools/test_sandbox",
    "unit/tools/test_tool_user",
    "unit/tools/transfer/test_postgres",
)

# Exceptions: the parts of these tiers that are quick and need nothing.
QUICK: Final = ("e2e/test_commands", "e2e/test_main_job", "e2e/test_running.py")


def is_quick(path: str) -> bool:
    """Whether a path relative to tests/ belongs to the quick run."""
    return path.startswith(QUICK) or not path.startswith(FULL_ONLY)


def examples(full: int) -> int:
    """The number of generated examples: a tenth of the full size in the quick run."""
    return full if FULL else max(10, full // 10)


def seeds(full: int, *, least: int = 50) -> int:
    """The number of simulated schedules: SEEDS of the environment, or a twentieth of the full size in the quick run."""
    if chosen := os.environ.get("SEEDS"):
        return int(chosen)
    return full if FULL else max(least, full // 20)


def refuse_in_quick_run(service: str) -> None:
    """Fail when a test of the quick run starts a service: its module belongs in FULL_ONLY."""
    assert not NO_SERVICES, f"{service} is not available in the quick run: add this module to FULL_ONLY in {__file__}"
