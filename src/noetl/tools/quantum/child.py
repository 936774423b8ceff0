"""Code that the `quantum` tool runs in a child process: one circuit on qiskit's exact simulator.

The file is sent to the child as text, like the code of a `python` task. It imports nothing of NoETL.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

THREADS = "OPENBLAS_NUM_THREADS"  # idle threads of numpy use address space, which is limited


def main(circuit: str, shots: int, seed: int, qubits_max: int) -> dict[str, Any]:
    """Returns `{counts}`, or `{error}` if the circuit is invalid."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        from qiskit import qasm3  # type: ignore[import-untyped]  # has no types
        from qiskit.exceptions import QiskitError  # type: ignore[import-untyped]  # has no types
        from qiskit.primitives import StatevectorSampler  # type: ignore[import-untyped]  # has no types
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # qiskit warns that its OpenQASM parser is experimental
        try:
            parsed = qasm3.loads_experimental(circuit)
        except QiskitError as error:
            return {"error": f"the circuit cannot be parsed: {error.message}"}
        if parsed.num_qubits > qubits_max:
            return {"error": f"the circuit has {parsed.num_qubits} qubits, more than spec.qubits allows"}
        try:
            result = StatevectorSampler(seed=seed).run([parsed], shots=shots).result()[0]
        except (QiskitError, ValueError) as error:
            return {"error": f"the circuit cannot be run: {error}"}
    if not list(result.data):
        return {"error": "the circuit measures nothing; assign to a bit, for example `c = measure q;`"}
    counts = {bits: int(count) for bits, count in result.join_data().get_counts().items()}
    return {"counts": dict(sorted(counts.items()))}
