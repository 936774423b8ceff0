"""`noop` returns its input (D83)."""

from __future__ import annotations

import asyncio

from noetl.output import Output
from noetl.tools.noop import NoopInput, NoopTool
from tests.unit.tools.calls import call


def test_data_is_the_input_d83() -> None:
    assert asyncio.run(NoopTool().run(NoopInput(), call({"n": 1}, prev=[2]))) == Output(data={"n": 1})


def test_without_input_data_is_that_of_the_previous_task_d83() -> None:
    assert asyncio.run(NoopTool().run(NoopInput(), call(prev=[2]))) == Output(data=[2])
