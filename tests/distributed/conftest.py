"""When a test fails, what the processes of its house said is shown with it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.distributed.houses import HOUSES


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for house in HOUSES:
            report.sections.append((f"processes of {house.database}", house.told()))
    return report
