"""`quantum`: circuits on a simulator, with submit, poll and fetch, as with a remote quantum computer.

`submit` stores the circuit and its seed in the result store. They determine the counts, so a worker that does
not know a run, because another worker started it, repeats the run and gets the same counts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.errors import NoetlError
from noetl.output import JSON, Output, failed
from noetl.tool import Call, Tool, ToolUser
from noetl.tools.errors import InvalidInput, not_installed, store_failure

if TYPE_CHECKING:
    import asyncio

    from noetl.tools.python.pool import ChildResponse, PythonPool

CIRCUIT_CHARS_MAX = 1_000_000
SHOTS_MAX = 1_000_000
QUBITS_MAX = 26  # one GiB of amplitudes
RUNS_MAX = 64  # in the memory of a worker
PRINTED_CHARS_MAX = 2_000

_INCLUDE = re.compile(r'\binclude\b(?!\s+"stdgates\.inc"\s*;)')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

CHILD = Path(__file__).with_name("child.py")  # the code that runs in the child process


class QuantumInput(Struct, kw_only=True):
    """A circuit to submit, or the handle of a submitted one."""

    op: Annotated[
        Literal["submit", "poll", "fetch"],
        Meta(
            description="`submit` starts a run, `poll` returns its status, `fetch` waits for its end and "
            "returns its counts"
        ),
    ]
    circuit: Annotated[
        str | None, Meta(description='for `submit`: circuit in OpenQASM 3; it may include only "stdgates.inc"')
    ] = None
    shots: Annotated[
        Annotated[int, Meta(ge=1, le=SHOTS_MAX)], Meta(description="for `submit`: number of repetitions")
    ] = 1024
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="for `submit`: seed of the random numbers; default: derived from the call, the same "
            "for all its attempts"
        ),
    ] = None
    backend: Annotated[
        Literal["sampler"],
        Meta(description="for `submit`: where the circuit runs; `sampler` is qiskit's StatevectorSampler"),
    ] = "sampler"
    handle: Annotated[
        JSON, Meta(description="for `poll` and `fetch`: `output.data` of `submit`", examples=['"{{ submit.data }}"'])
    ] = None


class QuantumSpec(Struct, kw_only=True):
    """Limits of a run."""

    qubits: Annotated[
        int,
        Meta(
            ge=1, le=QUBITS_MAX, description="maximum number of qubits; each additional qubit doubles time and memory"
        ),
    ] = 20
    memory_mb: Annotated[int, Meta(ge=1024, description="memory of a run, in MiB")] = 4096
    run_s: Annotated[float, Meta(gt=0, description="maximum duration of a run, in seconds")] = 600.0


class Submitted(Struct, frozen=True, kw_only=True):
    """A run as `submit` stores it; it contains everything that determines the result."""

    key: str  # of the call: two calls are two runs, two attempts of a call are the same run
    backend: Literal["sampler"]
    circuit: str
    shots: int
    seed: int


class QuantumTool(Tool):
    """Runs a quantum circuit on a simulator: `submit` starts a run, `fetch` returns its result.

    `output.data` of `submit` is the handle `{id, ref}`; the task does not wait for the run. `poll` returns
    `{id, status}` with the status `running` or `done`, and `fetch` returns `{id, counts, shots, seed}`. If
    the circuit is invalid, `poll` and `fetch` fail.
    """

    kind = "quantum"
    failures = ("quantum",)
    ignores = ("auth", "timeout.connect", "timeout.read")
    runs_programs = True
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

    def __init__(self, user: ToolUser | None = None, nice: int = 0) -> None:
        self._user, self._nice = user, nice
        self._pool: PythonPool | None = None
        self._runs: dict[str, asyncio.Task[Output]] = {}  # by id, oldest first

    async def run(self, input: QuantumInput, call: Call) -> Output:
        import asyncio
        from importlib.util import find_spec

        if find_spec("qiskit") is None:
            return not_installed("qiskit", "quantum")
        try:
            spec = msgspec.convert(call.spec, QuantumSpec)
            if input.op == "submit":
                return await self._submit(input, spec, call)
            handle, submitted = await _load(input.handle, call)
        except msgspec.ValidationError as error:
            return failed("input", f"spec: {error}")
        except InvalidInput as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
        running = self._start(handle["id"], submitted, spec)
        if running is None:
            return _too_many_runs()
        if input.op == "poll" and not running.done():
            return Output(data={"id": handle["id"], "status": "running"})
        output = await asyncio.shield(running)
        if output.error is not None:
            return output
        if input.op == "poll":
            return Output(data={"id": handle["id"], "status": "done"})
        return Output(data={"id": handle["id"], **output.data})

    async def _submit(self, input: QuantumInput, spec: QuantumSpec, call: Call) -> Output:
        body = msgspec.json.encode(_submission(input, call))
        ref = await call.results.put(call.execution_id, body, "application/json")
        id = _id(ref)
        if self._start(id, msgspec.json.decode(body, type=Submitted), spec) is None:
            return _too_many_runs()
        return Output(data={"id": id, "ref": ref})

    def _start(self, id: str, submitted: Submitted, spec: QuantumSpec) -> asyncio.Task[Output] | None:
        """The run; it is started if this worker does not know it. None: too many runs are active."""
        import asyncio

        known = self._runs.get(id)
        if known is not None and not known.cancelled():
            return known
        if len(self._runs) >= RUNS_MAX:
            finished = next((each for each, run in self._runs.items() if run.done()), None)
            if finished is None:
                return None
            del self._runs[finished]
        started = self._runs[id] = asyncio.create_task(self._sample(submitted, spec))
        return started

    async def _sample(self, submitted: Submitted, spec: QuantumSpec) -> Output:
        """Run the circuit in a child process, which can be killed and has a memory limit."""
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
                response = await self._children().call(request)
        except TimeoutError:
            return failed("timeout", f"the run took longer than spec.run_s allows ({spec.run_s:g} s)")
        except OSError as error:
            return failed("quantum", f"cannot start a child process: {error.strerror}", retryable=True)
        return _output(response, submitted)

    def _children(self) -> PythonPool:
        if self._pool is None:
            from noetl.tools.python.pool import PythonPool

            self._pool = PythonPool(1, self._user, self._nice)  # one run uses all CPU cores
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


def _submission(input: QuantumInput, call: Call) -> Submitted:
    """Raises InvalidInput."""
    circuit = input.circuit
    if not circuit:
        raise InvalidInput("`submit` requires a `circuit`")
    _check_circuit(circuit)
    seed = input.seed
    if seed is None:
        import hashlib

        seed = int.from_bytes(hashlib.sha256(call.key.encode()).digest()[:4])
    circuit = circuit.encode(errors="replace").decode()
    return Submitted(key=call.key, backend=input.backend, circuit=circuit, shots=input.shots, seed=seed)


def _check_circuit(circuit: str) -> None:
    """Raises InvalidInput."""
    if len(circuit) > CIRCUIT_CHARS_MAX:
        raise InvalidInput(f"the circuit is too long (limit CIRCUIT_CHARS_MAX: {CIRCUIT_CHARS_MAX:,} characters)")
    if _INCLUDE.search(circuit):
        # qiskit would read any file of the worker, and show it in error messages.
        raise InvalidInput('a circuit may include only "stdgates.inc"')


async def _load(handle: JSON, call: Call) -> tuple[dict[str, JSON], Submitted]:
    """The handle and the stored run. Raises InvalidInput and the errors of the result store."""
    from noetl.tools.payload import is_ref

    if not isinstance(handle, dict) or not is_ref(handle.get("ref")) or handle.get("id") != _id(handle["ref"]):
        raise InvalidInput("`handle` must be the `output.data` of `submit`")
    try:
        submitted = msgspec.json.decode(await call.results.get(handle["ref"]), type=Submitted)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("`handle` must be the `output.data` of `submit`; its Ref is something else") from error
    _check_circuit(submitted.circuit)  # another task may have stored it
    return handle, submitted


def _id(ref: dict[str, JSON]) -> str:
    """A short id, the same for the same run."""
    return str(ref.get("meta", {}).get("sha256", ""))[:16]


def _too_many_runs() -> Output:
    return failed("quantum", f"too many runs are active (limit RUNS_MAX: {RUNS_MAX})", retryable=True)


def _output(response: ChildResponse, submitted: Submitted) -> Output:
    if response.body is None:
        return failed("quantum", response.error)
    result = msgspec.json.decode(response.body)
    if "error" in result:
        return failed("quantum", result["error"]["message"])
    data: dict[str, JSON] = result["data"]
    if "counts" in data:
        return Output(data={"counts": data["counts"], "shots": submitted.shots, "seed": submitted.seed})
    printed = _COLOURS.sub("", response.stdout + response.stderr).strip()[:PRINTED_CHARS_MAX]
    return failed("quantum", f"{data['error']}\n{printed}" if printed else data["error"])
