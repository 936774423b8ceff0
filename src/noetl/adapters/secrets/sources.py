"""Values that lie on this machine: variables, files, and fields of an entry that name one or the other (D84).

An error names the place, and never what was found there.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.secret import Secret
from noetl.tool import AddressPolicy

SECRET_BYTES_MAX: Final = 65_536  # of one value, wherever it comes from
OURS: Final = "NOETL_"  # variables of the house itself
FOR_AUTHORS: Final = "NOETL_SECRET_"  # but these are there for playbooks
MOUNTED: Final = "/run/secrets"  # where containers find theirs
SYSTEM: Final = ("/proc", "/sys", "/dev")
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe that nobody writes to holds up no one


class SourcePolicy(NamedTuple):
    """What the entries of authors may name. As it is made without more: for a person's own machine."""

    variables: tuple[str, ...] | None = None  # names, with `*` for any part of one; None: all but our own
    folders: tuple[str, ...] | None = None  # what lies in one of these; None: wherever we may read
    addresses: AddressPolicy = AddressPolicy()  # where tokens may be asked for

    @classmethod
    def of_server(cls, variables: str, folders: str | None, networks: str) -> SourcePolicy:
        """Its authors are not its operator: what they may name, with blanks or commas between."""
        return cls(
            tuple(variables.replace(",", " ").split()),
            tuple((MOUNTED if folders is None else folders).replace(",", " ").split()),
            AddressPolicy.of_server(networks),
        )

    def opens(self, name: str) -> bool:
        if name.startswith(FOR_AUTHORS):
            return True
        if name.startswith(OURS):  # keys and addresses of the house itself
            return False
        return self.variables is None or any(fnmatchcase(name, each) for each in self.variables)


class Sources:
    """The environment and the files that entries may name."""

    def __init__(self, environment: Mapping[str, str], policy: SourcePolicy | None = None) -> None:
        self.environment = environment
        self._policy = policy or SourcePolicy()

    def variable(self, name: str) -> Secret:
        """One that an author names. Raises NotFound."""
        if not self._policy.opens(name):
            words = f'the environment variable "{name}" is not for playbooks'
            if name.startswith(OURS):
                raise NotFound(f"{words}: it is a setting of NoETL itself; {FOR_AUTHORS}* are for playbooks")
            raise NotFound(f"{words} of this server: its operator may list it in NOETL_SECRET_VARIABLES")
        return self.own(name)

    def own(self, name: str) -> Secret:
        """One that the operator has set for us. Raises NotFound."""
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
        return Secret(await asyncio.to_thread(self._read, place))

    def _read(self, path: Path) -> str:
        """Where it really lies is what counts: a link may lead out of a folder."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise Unavailable(f'the file "{path}" can not be read: it is no path') from error
        if any(real.is_relative_to(each) for each in SYSTEM):
            raise NotFound(f'"{path}" is a file of the system itself, which holds no credential')
        folders = self._policy.folders
        if folders is not None and not any(real.is_relative_to(Path(each).resolve()) for each in folders):
            words = f'the file "{path}" is not for playbooks of this server, only those in'
            raise NotFound(f"{words} {', '.join(folders) or 'no folder'} (NOETL_SECRET_FOLDERS)")
        return _content(real, path)

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


def _content(real: Path, path: Path) -> str:
    try:
        descriptor = os.open(real, _FLAGS)
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
