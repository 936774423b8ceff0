"""`scripts/test scenarios -- --rewrite` writes the answers; the diff is what is reviewed."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the engine answers into the scenarios"
    )
