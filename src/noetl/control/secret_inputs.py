"""The values of secret inputs when an execution starts: checked with its workload, and stored before it starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from noetl.errors import InputError, InputProblem, NotFound, Rejected
from noetl.net.inputs import SECRETS_PREFIX
from noetl.net.program import Program
from noetl.output import JSON
from noetl.ports import ExecutionHead, SecretInputs
from noetl.secret import Secret


def check_inputs(program: Program, workload: Mapping[str, JSON], secrets: Mapping[str, JSON]) -> None:
    """Raises InputError with the problems of all values, if the playbook has secret inputs or the request secrets."""
    inputs = program.inputs
    if inputs is None:
        problems = tuple(InputProblem(f"{SECRETS_PREFIX}{name}", "the playbook declares no inputs") for name in secrets)
    elif inputs.secrets or secrets:
        misplaced = {f"{SECRETS_PREFIX}{name}" for name in workload}  # they are not missing
        found = (each for each in inputs.fit_secrets(secrets) if each.name not in misplaced)
        problems = (*inputs.fit(workload, lambda _: False).problems, *found)
    else:
        return
    if problems:
        raise InputError(problems)


async def secrets_of_fork(
    store: SecretInputs, origin: ExecutionHead, program: Program, given: Mapping[str, str]
) -> Mapping[str, str]:
    """The given values, and those of the old execution that are still stored and that the playbook declares.

    A fork with a playbook of another path takes nothing over: other people may have written it.
    Raises InputError if a value does not fit or is missing.
    """
    inputs = program.inputs
    if inputs is None:
        check_inputs(program, {}, given)
        return given
    names = {each.name for each in inputs.secrets} if origin.path == program.playbook.path else set()
    stored = await store.inputs(origin.execution_id) if names else {}
    found = {**{name: each.reveal() for name, each in stored.items() if name in names}, **given}
    if problems := inputs.fit_secrets(found):
        raise InputError(problems)
    return found


@asynccontextmanager
async def stored_secrets(store: SecretInputs, execution_id: str, secrets: Mapping[str, str]) -> AsyncIterator[None]:
    """The start of the execution happens inside. The secrets are removed again if it is refused."""
    if not secrets:
        yield
        return
    await store.set_inputs(execution_id, {name: Secret(value) for name, value in secrets.items()})
    try:
        yield
    except (Rejected, NotFound):
        await store.remove_inputs(execution_id)
        raise
