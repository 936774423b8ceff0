"""`run_tests()`: the tests of a `*.test.yaml` file, from Python."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.replay.cases import SuiteRunner
from noetl.views.test_results import CaseResult

__all__ = ["CaseResult", "run_tests"]


def run_tests(file: str | Path, name: str | None = None) -> list[CaseResult]:
    """Run the tests of a file, or the one with this name. A result has `name`, `passed` and `mismatches`.

    Raises PlaybookError when the file or its playbook has problems, LookupError for an unknown name, and OSError.
    """
    runner = SuiteRunner()
    suite = runner.load(Path(file))
    names = [each.name for each in suite.cases]
    if name is not None and name not in names:
        raise LookupError(f'{file} has no test "{name}": its tests are {", ".join(names)}')

    async def run() -> list[CaseResult]:
        return [each async for each in runner.run(suite, None if name is None else [name])]

    return asyncio.run(run())
