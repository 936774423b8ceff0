"""These tests take minutes and the whole machine: they run only if the command names their folder, as scripts/chaos does."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """None: pytest decides."""
    del collection_path
    named = [(config.invocation_params.dir / each.split("::")[0]).resolve() for each in config.args]
    return None if any(path == HERE or HERE in path.parents for path in named) else True
