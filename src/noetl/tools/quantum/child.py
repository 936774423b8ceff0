"""What the `quantum` tool runs in a child process: one circuit on qiskit's exact simulator.

The file is sent as text, as an author's code would be. It imports qiskit when called, and nothing of ours.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

THREADS = (
    "OPENBLAS_NUM_THREADS"  # each thread that numpy keeps ready takes address space, and has no work here
)


def main(circuit: str, shots: int, seed: int, qubits_max: int) -> dict[str, Any]:
    """`{counts}`, or `{error}` with what is wrong with the circuit."""
    given = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        from qiskit import qasm3  # type: ignore[import-untyped]  # it has no types
        from qiskit.exceptions import QiskitError  # type: ignore[import-untyped]  # nor here
        from qiskit.primitives import StatevectorSampler  # type: ignore[import-untyped]  # nor here
    finally:
        if given is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The reader says of itself that it is an experiment.
        try:
            made = qasm3.loads_experimental(circuit)
        except QiskitError as error:
            return {"error": f"the circuit can not be read: {error.message}"}
        if made.num_qubits > qubits_max:
            return {"error": f"the circuit has {made.num_qubits} qubits (the limit is spec.qubits)"}
        try:
            result = StatevectorSampler(seed=seed).run([made], shots=shots).result()[0]
        except (QiskitError, ValueError) as error:
            return {"error": f"the circuit can not be run: {error}"}
    if not list(result.data):
        return {"error": "the circuit measures nothing: assign to a bit, as in `c = measure q;`"}
    counts = {bits: int(count) for bits, count in result.join_data().get_counts().items()}
    return {"counts": dict(sorted(counts.items()))}
