"""Values that lie on this machine: variables, files, and fields of an entry that name one or the other (D84).

An error names the place, and never what was found there.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.secret import Secret

SECRET_BYTES_MAX: Final = 65_536  # of one value, wherever it comes from
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe that nobody writes to holds up no one


class Sources:
    """The environment and the files that entries may name."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def variable(self, name: str) -> Secret:
        """Raises NotFound."""
        value = self.environment.get(name)
        if not value:
            state = "not set" if value is None else "empty"
            raise NotFound(f'the environment variable "{name}" is {state}')
        return Secret(value)

    async def file(self, path: str) -> Secret:
        """Without the newline that editors put at the end. Raises NotFound or Unavailable."""
        place = Path(path).expanduser()
        if not place.is_absolute():
            raise NotFound(f'the path "{path}" must be absolute, or begin with "~"')
        return Secret(await asyncio.to_thread(_read, place))

    async def value(self, value: JSON) -> Secret:
        """A field as it is written: a value, `{env: …}` or `{file: …}`."""
        match value:
            case {"env": str(name)}:
                return self.variable(name)
            case {"file": str(path)}:
                return await self.file(path)
            case bool() | dict() | list() | None:
                raise NotFound("a field must be text, a number, {env: …} or {file: …}")
        return Secret(str(value))

    async def text(self, credential: Credential, field: str, default: str | None = None) -> str:
        """A field that is no secret, or is needed to fetch one. Raises NotFound when it is not there."""
        value = credential.fields.get(field, default)
        if value is None:
            raise NotFound(f'it has no field "{field}"')
        return (await self.value(value)).reveal()

    async def fields(self, credential: Credential, names: Iterable[str]) -> dict[str, Secret]:
        """Those of these fields that are given."""
        given = {name: credential.fields.get(name) for name in names}
        return {name: await self.value(each) for name, each in given.items() if each is not None}


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, _FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotFound(f'"{path}" is no regular file')
            with os.fdopen(os.dup(descriptor), "rb") as file:
                body = file.read(SECRET_BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise NotFound(f'there is no file "{path}"') from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no path"
        raise Unavailable(f'the file "{path}" can not be read: {reason}') from error
    if len(body) > SECRET_BYTES_MAX:
        raise Unavailable(
            f'the file "{path}" is too long (limit SECRET_BYTES_MAX: {SECRET_BYTES_MAX:,} bytes)'
        )
    text = as_text(body, f'the file "{path}"').removesuffix("\n").removesuffix("\r")
    if not text:
        raise NotFound(f'the file "{path}" is empty')
    return text


def as_text(body: bytes, what: str) -> str:
    """Raises Unavailable without the bytes, which an error of Python's would show."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Unavailable(f"{what} is no UTF-8 text") from None
