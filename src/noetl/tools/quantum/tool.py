"""`quantum`: circuits on a sampler, by submit, poll and fetch, as one talks to a machine far away.

What was submitted lies in the result store, its seed too, and a run is a function of that: a worker that is
asked for one it does not know, since another began it, makes it again and comes to the same counts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.errors import NoetlError, Unavailable, install_hint
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool

if TYPE_CHECKING:
    import asyncio

    from noetl.tools.python.pool import Answer, Pool

CIRCUIT_CHARS_MAX = 1_000_000
SHOTS_MAX = 1_000_000
QUBITS_MAX = 26  # a gibibyte of amplitudes
RUNS_MAX = 64  # that a worker remembers
PRINTED_CHARS_MAX = 2_000

_INCLUDE = re.compile(r'\binclude\b(?!\s+"stdgates\.inc"\s*;)')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

CHILD = Path(__file__).with_name("child.py")  # the code that runs in the child process


class QuantumInput(Struct, kw_only=True):
    """A circuit to submit, or one that was submitted."""

    op: Annotated[
        Literal["submit", "poll", "fetch"],
        Meta(description="begin a run; ask how it stands; wait for its end and take its counts"),
    ]
    circuit: Annotated[
        str | None, Meta(description='of `submit`: OpenQASM 3; the only file to include is "stdgates.inc"')
    ] = None
    shots: Annotated[Annotated[int, Meta(ge=1, le=SHOTS_MAX)], Meta(description="of `submit`: how often")] = (
        1024
    )
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="of `submit`: for chance; without one it comes from the call, and stays the same"),
    ] = None
    backend: Annotated[
        Literal["sampler"], Meta(description="of `submit`: qiskit's StatevectorSampler, in this worker")
    ] = "sampler"
    handle: Annotated[
        JSON,
        Meta(description="of `poll` and `fetch`: the data of `submit`", examples=['"{{ submit.data }}"']),
    ] = None


class QuantumSpec(Struct, kw_only=True):
    """Limits of a run."""

    qubits: Annotated[
        int, Meta(ge=1, le=QUBITS_MAX, description="of a circuit; each one more doubles time and memory")
    ] = 20
    memory_mb: Annotated[int, Meta(ge=1024, description="memory of a run")] = 4096
    run_s: Annotated[float, Meta(gt=0, description="how long a run may take, polled or not")] = 600.0


class Submitted(Struct, frozen=True, kw_only=True):
    """A run as `submit` stored it: nothing else is needed to make it."""

    key: str  # of the call, so that two calls are two runs and two attempts of one are one
    backend: Literal["sampler"]
    circuit: str
    shots: int
    seed: int


class Unfit(Exception):
    """The author's fields do not fit; the message is for the author."""


class QuantumTool(Tool):
    """Runs a circuit: `submit` gives a handle, `poll` its `status`, `fetch` its `counts`.
    `submit` comes back at once with `{id, ref}`. `poll` gives `{id, status}`, which is `running` or `done`.
    `fetch` gives `{id, counts, shots, seed}`. A circuit that can not be run is an error of these two.
    """

    kind = "quantum"
    Input = QuantumInput
    Spec = QuantumSpec
    defaults = {"timeout": 600}
    example = """\
kind: quantum
op: submit
shots: 100
seed: 7
circuit: |
  OPENQASM 3.0;
  include "stdgates.inc";
  qubit[2] q;
  bit[2] c;
  h q[0];
  cx q[0], q[1];
  c = measure q;
"""

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._runs: dict[str, asyncio.Task[Output]] = {}  # by id, the oldest first

    async def run(self, input: QuantumInput, call: Call) -> Output:
        import asyncio
        from importlib.util import find_spec

        if find_spec("qiskit") is None:
            return failed("tool", f"qiskit is not installed: {install_hint('quantum')}")
        try:
            spec = msgspec.convert(call.spec, QuantumSpec)
            if input.op == "submit":
                return await self._submit(input, spec, call)
            handle, submitted = await _submitted(input.handle, call)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except Unfit as error:
            return failed("input", str(error))
        except NoetlError as error:
            return failed("reference", str(error), retryable=isinstance(error, Unavailable))
        running = self._begun(handle["id"], submitted, spec)
        if running is None:
            return _crowded()
        if input.op == "poll" and not running.done():
            return Output(data={"id": handle["id"], "status": "running"})
        output = await asyncio.shield(running)
        if output.error is not None:
            return output
        if input.op == "poll":
            return Output(data={"id": handle["id"], "status": "done"})
        return Output(data={"id": handle["id"], **output.data})

    async def _submit(self, input: QuantumInput, spec: QuantumSpec, call: Call) -> Output:
        body = msgspec.json.encode(_asked(input, call))
        ref = await call.results.put(call.execution_id, body, "application/json")
        id = _id(ref)
        if self._begun(id, msgspec.json.decode(body, type=Submitted), spec) is None:
            return _crowded()
        return Output(data={"id": id, "ref": ref})

    def _begun(self, id: str, submitted: Submitted, spec: QuantumSpec) -> asyncio.Task[Output] | None:
        """The run, begun if it is not known here; None: too many are out."""
        import asyncio

        known = self._runs.get(id)
        if known is not None and not known.cancelled():
            return known
        if len(self._runs) >= RUNS_MAX:
            over = next((each for each, run in self._runs.items() if run.done()), None)
            if over is None:
                return None
            del self._runs[over]
        begun = self._runs[id] = asyncio.create_task(self._sampled(submitted, spec))
        return begun

    async def _sampled(self, submitted: Submitted, spec: QuantumSpec) -> Output:
        """In a child process: only that can be ended, and kept from taking all memory."""
        import asyncio

        code = await asyncio.to_thread(CHILD.read_text, "utf-8")
        request: dict[str, JSON] = {
            "code": code,
            "name": "quantum_child",
            "file": None,
            "arguments": {
                "circuit": submitted.circuit,
                "shots": submitted.shots,
                "seed": submitted.seed,
                "qubits_max": spec.qubits,
            },
            "libs": ["qiskit"],
            "memory_mb": spec.memory_mb,
        }
        try:
            async with asyncio.timeout(spec.run_s):
                answer = await self._children().call(request)
        except TimeoutError:
            return failed("timeout", f"the run took longer than {spec.run_s:g} s (the limit is spec.run_s)")
        except OSError as error:
            return failed("quantum", f"no child process can be started: {error.strerror}", retryable=True)
        return _output(answer, submitted)

    def _children(self) -> Pool:
        if self._pool is None:
            from noetl.tools.python.pool import Pool

            self._pool = Pool(1)  # The simulator itself takes all cores.
        return self._pool

    async def close(self) -> None:
        import asyncio

        for running in self._runs.values():
            running.cancel()
        if self._runs:
            await asyncio.wait(self._runs.values())
        self._runs.clear()
        if self._pool is not None:
            await self._pool.close()
            self._pool = None


def _asked(input: QuantumInput, call: Call) -> Submitted:
    """Raises Unfit."""
    circuit = input.circuit
    if not circuit:
        raise Unfit("`submit` takes a `circuit`")
    if len(circuit) > CIRCUIT_CHARS_MAX:
        raise Unfit(f"the circuit is too long (limit CIRCUIT_CHARS_MAX: {CIRCUIT_CHARS_MAX:,})")
    if _INCLUDE.search(circuit):
        # Any other file of the machine would be read, and shown in the errors.
        raise Unfit('a circuit may include "stdgates.inc" and nothing else')
    seed = input.seed
    if seed is None:
        import hashlib

        seed = int.from_bytes(hashlib.sha256(call.key.encode()).digest()[:4])
    circuit = circuit.encode(errors="replace").decode()
    return Submitted(key=call.key, backend=input.backend, circuit=circuit, shots=input.shots, seed=seed)


async def _submitted(handle: JSON, call: Call) -> tuple[dict[str, JSON], Submitted]:
    """Raises Unfit, and what the result store raises."""
    from noetl.tools.resolve import is_ref

    if (
        not isinstance(handle, dict)
        or not is_ref(handle.get("ref"))
        or handle.get("id") != _id(handle["ref"])
    ):
        raise Unfit("`handle` takes the data of `submit`")
    try:
        return handle, msgspec.json.decode(await call.results.get(handle["ref"]), type=Submitted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unfit("`handle` takes the data of `submit`, and this is that of something else") from error


def _id(ref: dict[str, JSON]) -> str:
    """Short, and the same for the same run."""
    return str(ref.get("meta", {}).get("sha256", ""))[:16]


def _crowded() -> Output:
    return failed("quantum", f"too many runs are out (limit RUNS_MAX: {RUNS_MAX})", retryable=True)


def _output(answer: Answer, submitted: Submitted) -> Output:
    if answer.body is None:
        return failed("quantum", answer.error or "")
    said = msgspec.json.decode(answer.body)
    if "error" in said:
        return failed("quantum", said["error"]["message"])
    data: dict[str, JSON] = said["data"]
    if "counts" in data:
        return Output(data={"counts": data["counts"], "shots": submitted.shots, "seed": submitted.seed})
    printed = _COLOURS.sub("", answer.printed.stdout + answer.printed.stderr).strip()[:PRINTED_CHARS_MAX]
    return failed("quantum", f"{data['error']}\n{printed}" if printed else data["error"])
