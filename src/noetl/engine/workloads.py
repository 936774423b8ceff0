"""Why an execution cannot start with a workload: the marks and the Refs that it is given (D91, D99)."""

from __future__ import annotations

import msgspec

from noetl.engine.scopes import is_foreign, named_refs
from noetl.engine.stored import ref_of
from noetl.net.origins import SUFFIX
from noetl.output import JSON, STORED, Failure

_in_order = msgspec.json.Encoder(order="deterministic").encode


def stored_fault(defaults: dict[str, JSON], given: dict[str, JSON]) -> Failure | None:
    """A workload is no mark, and a mapping in the result store cannot be merged with the keys of a default."""
    if STORED in given:
        return Failure(kind="input", message=f'the input of the call contains the key "{STORED}", which is reserved')
    for key, value in given.items():
        if ref_of(value) is not None and isinstance(default := defaults.get(key), dict) and default:
            message = f'workload.{key} is over 64 KiB and has defaults: pass a reference, or declare "{key}: {{}}"'
            return Failure(kind="payload-too-large", message=message)
    return None


def ref_fault(
    defaults: dict[str, JSON], given: dict[str, JSON], workload: dict[str, JSON], *, is_child: bool
) -> Failure | None:
    """A Ref is a default or is given: merged from both, it would name what neither may name.

    A request may not choose what is read from another system with the credentials of the playbook.
    """
    both = [name for name, value in given.items() if type(value) is dict and defaults.get(name)]
    parts = [{name: values[name] for name in both} for values in (defaults, given)]
    whole = {_in_order(ref) for ref in named_refs(parts)}
    for name in both:
        if any(_in_order(ref) not in whole for ref in named_refs({name: workload[name]})):
            message = f'workload "{name}" gives a part of a Ref and has defaults for the rest: give the whole Ref'
            return Failure(kind="reference", message=message)
    for name, value in given.items():
        if not is_child and name.endswith(SUFFIX) and type(value) is dict and is_foreign(value):
            system = str(value["locator"]["system"])[:40]
            message = f'workload "{name}" is a Ref to data in {system}; a request may only pass Refs to stored results'
            return Failure(kind="reference", message=message)
    return None
