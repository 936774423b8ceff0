"""`quantum`: submit, poll and fetch on a simulator; runs are reproducible on another worker (seed 000 §12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Failure, Output
from noetl.tools.quantum.tool import RUNS_MAX, QuantumInput, QuantumTool
from tests.e2e.processes import ROOT, Workspace
from tests.unit.tools.calls import call

BELL = """\
OPENQASM 3.0;
include "stdgates.inc";
qubit[2] q;
bit[2] c;
h q[0];
cx q[0], q[1];
c = measure q;
"""


def with_tool(use: Callable[[QuantumTool], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        tool = QuantumTool()
        try:
            return await use(tool)
        finally:
            await tool.close()

    return asyncio.run(go())


def submit(circuit: str | None = BELL, seed: int | None = 7) -> QuantumInput:
    return QuantumInput(op="submit", circuit=circuit, shots=100, seed=seed)


def fetched(results: MemoryResults, *inputs: QuantumInput) -> list[Output]:
    """Submit and fetch each circuit with one tool."""

    async def use(tool: QuantumTool) -> list[Output]:
        handles = [(await tool.run(each, call(results=results))).data for each in inputs]
        return [await tool.run(QuantumInput(op="fetch", handle=each), call(results=results)) for each in handles]

    outputs: list[Output] = with_tool(use)
    return outputs


def error_of(output: Output) -> Failure:
    assert output.status == "error"
    assert output.error is not None
    return output.error


def test_a_submitted_run_is_polled_and_fetched() -> None:
    async def use(tool: QuantumTool) -> None:
        results = MemoryResults()
        handle = (await tool.run(submit(), call(results=results))).data
        assert sorted(handle) == ["id", "ref"]
        poll, fetch = (QuantumInput(op=op, handle=handle) for op in ("poll", "fetch"))
        assert (await tool.run(poll, call(results=results))).data == {"id": handle["id"], "status": "running"}
        counted = (await tool.run(fetch, call(results=results))).data
        assert (counted["id"], counted["shots"], counted["seed"]) == (handle["id"], 100, 7)
        assert sorted(counted["counts"]) == ["00", "11"]
        assert sum(counted["counts"].values()) == 100
        assert (await tool.run(poll, call(results=results))).data == {"id": handle["id"], "status": "done"}

    with_tool(use)


def test_the_same_seed_gives_the_same_counts_and_the_default_depends_on_the_call() -> None:
    first, again, other = fetched(MemoryResults(), submit(), submit(BELL + "\n"), submit(seed=8))
    assert first.data["counts"] == again.data["counts"]
    assert first.data["counts"] != other.data["counts"]
    drawn = [fetched(MemoryResults(), submit(seed=None))[0].data for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_another_worker_gets_the_same_counts_from_the_stored_run() -> None:
    results = MemoryResults()

    async def begin(tool: QuantumTool) -> JSON:
        return (await tool.run(submit(), call(results=results))).data

    handle = with_tool(begin)

    async def end(tool: QuantumTool) -> Output:
        return await tool.run(QuantumInput(op="fetch", handle=handle), call(results=results))

    assert with_tool(end) == fetched(results, submit())[0]


def test_two_submits_of_the_same_call_are_one_run() -> None:
    async def use(tool: QuantumTool) -> None:
        results = MemoryResults()
        made = [await tool.run(submit(), call(results=results)) for _ in range(2)]
        assert made[0] == made[1]

    with_tool(use)


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        ("OPENQASM 3.0; nonsense", "the circuit cannot be parsed: errors during parsing"),
        ('OPENQASM 3.0; include "stdgates.inc"; qubit[1] q; h q[0];', "the circuit measures nothing"),
        (BELL.replace("[2]", "[21]"), "the circuit has 21 qubits, more than spec.qubits allows"),
    ],
)
def test_an_invalid_circuit_is_an_error(circuit: str, message: str) -> None:
    error = error_of(fetched(MemoryResults(), submit(circuit))[0])
    assert error.kind == "quantum"
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    "include",
    [
        'include "/etc/passwd";',
        'include/**/"/etc/passwd";',
        "include '/etc/passwd';",
        'include "stdgates.inc"',
    ],
)
def test_no_other_file_can_be_included(include: str) -> None:
    async def use(tool: QuantumTool) -> Output:
        return await tool.run(submit(f"OPENQASM 3.0; {include}\n qubit[1] q;"), call())

    error = error_of(with_tool(use))
    assert error == Failure(kind="input", message='a circuit may include only "stdgates.inc"')


@pytest.mark.parametrize("op", ["poll", "fetch"])
def test_a_circuit_behind_a_handle_cannot_include_another_file(op: Literal["poll", "fetch"]) -> None:
    async def use(tool: QuantumTool) -> None:
        results = MemoryResults()
        reads = {"key": "k", "backend": "sampler", "circuit": 'include "/etc/passwd";', "shots": 1, "seed": 1}
        stored = await results.put("e", msgspec.json.encode(reads), "application/json")
        hostile = QuantumInput(op=op, handle={"id": stored["meta"]["sha256"][:16], "ref": stored})
        error = error_of(await tool.run(hostile, call(results=results)))
        assert error.message == 'a circuit may include only "stdgates.inc"'

    with_tool(use)


def test_invalid_fields_are_an_error_of_kind_input() -> None:
    async def use(tool: QuantumTool) -> None:
        results = MemoryResults()
        other = await results.put("e1", b'{"a": 1}', "application/json")
        lost = {**other, "meta": {"sha256": "0" * 64}, "locator": {"key": "e1/" + "0" * 64}}
        wrong = Failure(kind="input", message="`handle` must be the `output.data` of `submit`")
        for handle in (None, 5, {}, {"id": "x", "ref": other}, {"id": [], "ref": other}):
            assert error_of(await tool.run(QuantumInput(op="poll", handle=handle), call(results=results))) == wrong
        strange = {"id": other["meta"]["sha256"][:16], "ref": other}
        assert error_of(await tool.run(QuantumInput(op="poll", handle=strange), call(results=results))).kind == "input"
        gone = {"id": "0" * 16, "ref": lost}
        assert error_of(await tool.run(QuantumInput(op="poll", handle=gone), call(results=results))).kind == "reference"
        assert error_of(await tool.run(submit(None), call())).message == "`submit` requires a `circuit`"
        assert error_of(await tool.run(submit("x" * 1_000_001), call())).message.startswith("the circuit is too long")
        assert error_of(await tool.run(submit(), call(spec={"qubits": 99}))).message.startswith("spec: ")

    with_tool(use)


def test_a_run_has_a_time_limit() -> None:
    async def use(tool: QuantumTool) -> Output:
        results, spec = MemoryResults(), {"run_s": 0.001}
        handle = (await tool.run(submit(), call(results=results, spec=spec))).data
        return await tool.run(QuantumInput(op="fetch", handle=handle), call(results=results, spec=spec))

    error = error_of(with_tool(use))
    assert error == Failure(kind="timeout", message="the run took longer than spec.run_s allows (0.001 s)")


def test_the_number_of_active_runs_is_limited() -> None:
    async def use(tool: QuantumTool) -> list[Output]:
        return [await tool.run(submit(seed=number), call()) for number in range(RUNS_MAX + 1)]

    outputs = with_tool(use)
    assert {output.status for output in outputs[:-1]} == {"ok"}
    assert error_of(outputs[-1]).retryable


def test_a_sweep_over_angles_is_a_loop(tmp_path: Path) -> None:
    code, document = Workspace(tmp_path).json("run", ROOT / "examples/quantum_sweep.yaml")
    sweep = document["output"]["data"]["sweep"]
    assert code == 0
    assert [each["angle"] for each in sweep] == [0.0, 1.0471975512, 1.5707963268, 3.1415926536]
    shares = [each["ones"] for each in sweep]
    assert (shares[0], shares[-1]) == (0, 1)
    assert shares == sorted(shares)
