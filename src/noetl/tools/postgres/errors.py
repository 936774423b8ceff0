"""What PostgreSQL and its driver say when something goes wrong → a Failure that shows no value.

DETAIL, HINT and CONTEXT print values of the rows concerned, so nothing of them is kept; names of constraints,
tables and columns are.
"""

from __future__ import annotations

import re
from typing import Any, Final

from noetl.output import JSON, Failure, Output

# Serialization, deadlock, connection, shutdown, too many connections: the same call may work later.
RETRYABLE: Final = re.compile(r"40001|40003|40P01|08...|57P0.|53300")
UNKNOWN: Final = re.compile(r"40003|08...")
CANCELED: Final = "57014"
CREDENTIAL: Final = re.compile(r"28...")
_NAMES: Final = ("constraint_name", "table_name", "column_name", "schema_name", "data_type_name")
_VALUES: Final = re.compile(r'".*"', re.DOTALL)
_ARGUMENT: Final = re.compile(r"\Ainvalid input for query argument \$(\d+)")


def failure_of(error: Exception, *, unknown: bool) -> Output:
    """`unknown`: something was sent that may have been done, when the connection is lost."""
    import asyncpg

    found = _ARGUMENT.search(str(error))
    if found is not None:  # by the driver itself, and its message shows the value
        message = f"parameter ${found[1]} has a value that does not fit its type"
        return _output(Failure(kind="postgres", message=message, details={"sqlstate": None}))
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.PostgresConnectionError):
        return _refused(error)
    # But for "connection is closed" and its kin, an InterfaceError is a wrong use of the driver.
    if isinstance(error, asyncpg.InterfaceError) and "clos" not in str(error):
        message = f"the driver refuses the statement ({type(error).__name__})"
        return _output(Failure(kind="postgres", message=message, details={"sqlstate": None}))
    details: dict[str, JSON] = {"sqlstate": getattr(error, "sqlstate", None), "unknown": unknown}
    if isinstance(error, ValueError | TypeError | ArithmeticError):
        message = f"the driver can not read what came back ({type(error).__name__})"
        return _output(Failure(kind="postgres", message=message, details=details))
    words = "; whether it was done is not known" if unknown else ""
    message = f"the connection to PostgreSQL is lost ({type(error).__name__}){words}"
    return _output(Failure(kind="postgres", message=message, retryable=True, details=details))


def unreachable(error: Exception) -> Output:
    """No connection was made, so nothing was done."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _refused(error)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    message = f"PostgreSQL can not be reached: {reason}"
    return _output(
        Failure(
            kind="postgres", message=message, retryable=True, details={"sqlstate": None, "unknown": False}
        )
    )


def is_credential(error: Exception) -> bool:
    return CREDENTIAL.fullmatch(str(getattr(error, "sqlstate", None))) is not None


def _refused(error: Any) -> Output:
    state = str(error.sqlstate or "")
    message = str(error.args[0]) if error.args else type(error).__name__
    if state.startswith("22"):
        message = _VALUES.sub('"…"', message)  # invalid input syntax for type integer: "…"
    details: dict[str, JSON] = {"sqlstate": state or None}
    for name in _NAMES:
        if (word := getattr(error, name, None)) is not None:
            details[name.removesuffix("_name")] = str(word)
    if UNKNOWN.fullmatch(state):
        details["unknown"] = True
    kind = "timeout" if state == CANCELED else "postgres"
    retryable = state == CANCELED or RETRYABLE.fullmatch(state) is not None
    return _output(Failure(kind=kind, message=message[:1000], retryable=retryable, details=details))


def _output(failure: Failure) -> Output:
    state = failure.details.get("sqlstate")
    own = {"pg": {"code": state, "sqlstate": state, "rowcount": None}}
    return Output(status="error", error=failure, own=own)
