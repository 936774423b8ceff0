"""`scripts/test scenarios -- --rewrite` writes the answers; review the diff."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the answers of the engine into the scenarios")
