"""The report of a failed test shows the output of the processes of its cluster."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.distributed.cluster import CLUSTERS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for cluster in CLUSTERS:
            report.sections.append((f"processes of {cluster.database}", cluster.output()))
    return report
