"""`noetl test`: run tests of playbooks that are written in YAML."""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.execute import Reporter
from noetl.cli.options import Format, app, finish


@app.command(name="test")
def run_tests(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Test files, or folders of them. Default: the current folder."),
    ] = None,
    *,
    only: Annotated[
        str | None, typer.Option("--only", metavar="TEXT", help="Only tests whose name contains this text.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show which steps, arcs, rules and failure arcs never ran.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the route and the calls of each test.")
    ] = False,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Run the tests again when a file changes.")] = False,
    format: Format = "auto",
) -> None:
    """Run the tests in files whose name ends in .test.yaml.

    A test runs its playbook in memory, with a virtual clock. The stubs of the test answer all calls that have side
    effects, so no external system is called. Exits with 0 when all tests pass, with 1 when one fails, with 2 when a
    file cannot be run. JSON is `{passed, failed, tests, problems}`, with --coverage also `coverage`.

    \b
    Examples:
      noetl test
      noetl test orders.test.yaml --coverage
      noetl test orders.test.yaml --only retried --verbose
    """

    def command(reporter: Reporter) -> int:
        from noetl.cli.suite_runner import SuiteOptions, run_once, watch_files
        from noetl.session.errors import UsageError

        if watch and (reporter.json or junit is not None):
            raise UsageError("--watch prints for people: run it without --format json and --junit")
        options = SuiteOptions(tuple(files or ["."]), only, coverage, verbose, junit)
        return (watch_files if watch else run_once)(reporter, options)

    finish(format, command)
