"""Credential values on this machine: environment variables, files, and fields that refer to them (D84).

An error names the source and never its content.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from noetl.errors import NotFound, Unavailable
from noetl.output import JSON
from noetl.playbook.model import Credential
from noetl.secret import SECRET_BYTES_MAX, Secret
from noetl.tool import AddressPolicy

RESERVED_PREFIX: Final = "NOETL_"  # settings of NoETL itself, which playbooks cannot read
PLAYBOOK_PREFIX: Final = "NOETL_SECRET_"  # an exception: these are for playbooks
MOUNTED: Final = "/run/secrets"  # the secrets of containers
SYSTEM: Final = ("/proc", "/sys", "/dev")
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe without a writer must not block


class SourcePolicy(NamedTuple):
    """The sources that playbooks may name. The defaults are for a personal machine."""

    variables: tuple[str, ...] | None = None  # patterns with `*`; None: all but RESERVED_PREFIX
    folders: tuple[str, ...] | None = None  # files must be inside one of them; None: no restriction
    addresses: AddressPolicy = AddressPolicy()  # of token services

    @classmethod
    def of_server(cls, variables: str, folders: str | None, networks: str) -> SourcePolicy:
        """For a server, whose authors are not its operator. Lists are separated by blanks or commas."""
        return cls(
            tuple(variables.replace(",", " ").split()),
            tuple((MOUNTED if folders is None else folders).replace(",", " ").split()),
            AddressPolicy.of_server(networks),
        )

    def allows_variable(self, name: str) -> bool:
        if name.startswith(PLAYBOOK_PREFIX):
            return True
        if name.startswith(RESERVED_PREFIX):
            return False
        return self.variables is None or any(fnmatchcase(name, each) for each in self.variables)


class Sources:
    """Reads the environment variables and files that keychain entries name."""

    def __init__(self, environment: Mapping[str, str], policy: SourcePolicy | None = None) -> None:
        self.environment = environment
        self._policy = policy or SourcePolicy()

    def variable(self, name: str) -> Secret:
        """A variable that a playbook names. Raises NotFound."""
        if not self._policy.allows_variable(name):
            message = f'playbooks may not read the environment variable "{name}"'
            if name.startswith(RESERVED_PREFIX):
                raise NotFound(f"{message}: it is a setting of NoETL itself; use {PLAYBOOK_PREFIX}*")
            raise NotFound(f"{message} on this server: its operator can list it in NOETL_SECRET_VARIABLES")
        return self.own(name)

    def own(self, name: str) -> Secret:
        """A variable that the operator has set for NoETL. Raises NotFound."""
        value = self.environment.get(name)
        if not value:
            state = "not set" if value is None else "empty"
            raise NotFound(f'the environment variable "{name}" is {state}')
        return Secret(value)

    async def file(self, path: str) -> Secret:
        """The content without its last newline. Raises NotFound or Unavailable."""
        location = Path(path).expanduser()
        if not location.is_absolute():
            raise NotFound(f'the path "{path}" must be absolute, or begin with "~"')
        return Secret(await asyncio.to_thread(self._read, location))

    def _read(self, path: Path) -> str:
        """Checks the resolved path: a symbolic link may lead out of a permitted folder."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise Unavailable(f'the file "{path}" cannot be read: invalid path') from error
        if any(real.is_relative_to(each) for each in SYSTEM):
            raise NotFound(f'"{path}" is a system file, not a credential')
        folders = self._policy.folders
        if folders is not None and not any(real.is_relative_to(Path(each).resolve()) for each in folders):
            message = f'playbooks may not read "{path}" on this server, only files in'
            raise NotFound(f"{message} {', '.join(folders) or 'no folder'} (NOETL_SECRET_FOLDERS)")
        return _content(real, path)

    async def value(self, value: JSON) -> Secret:
        """The value of a field: a literal, `{env: …}` or `{file: …}`."""
        match value:
            case {"env": str(name)}:
                return self.variable(name)
            case {"file": str(path)}:
                return await self.file(path)
            case bool() | dict() | list() | None:
                raise NotFound("a field must be text, a number, {env: …} or {file: …}")
        return Secret(str(value))

    async def text(self, credential: Credential, field: str, default: str | None = None) -> str:
        """A field as text, for the provider itself. Raises NotFound if it is missing."""
        value = credential.fields.get(field, default)
        if value is None:
            raise NotFound(f'it has no field "{field}"')
        return (await self.value(value)).reveal()

    async def fields(self, credential: Credential, names: Iterable[str]) -> dict[str, Secret]:
        """The values of those fields that the entry has."""
        fields = {name: credential.fields.get(name) for name in names}
        return {name: await self.value(each) for name, each in fields.items() if each is not None}


def _content(real: Path, path: Path) -> str:
    try:
        descriptor = os.open(real, _FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotFound(f'"{path}" is not a regular file')
            with os.fdopen(os.dup(descriptor), "rb") as file:
                body = file.read(SECRET_BYTES_MAX + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise NotFound(f'there is no file "{path}"') from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "invalid path"
        raise Unavailable(f'the file "{path}" cannot be read: {reason}') from error
    if len(body) > SECRET_BYTES_MAX:
        raise Unavailable(f'the file "{path}" is too long (limit SECRET_BYTES_MAX: {SECRET_BYTES_MAX:,} bytes)')
    text = as_text(body, f'the file "{path}"').removesuffix("\n").removesuffix("\r")
    if not text:
        raise NotFound(f'the file "{path}" is empty')
    return text


def as_text(body: bytes, what: str) -> str:
    """Raises Unavailable without the bytes, which UnicodeDecodeError would show."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Unavailable(f"{what} is not UTF-8 text") from None


class ValueVersions:
    """Versions for values that have none: the same for the same value, and irreversible.

    They are digests under a key that is not in the log, so passwords cannot be tested against the log.
    """

    def __init__(self, key: Callable[[], bytes | None]) -> None:
        """`key`: of the deployment, so that two processes agree; if it returns None, a random one is used."""
        self._find_key = key
        self._key: bytes | None = None

    def of(self, values: Mapping[str, Secret]) -> str:
        if self._key is None:
            self._key = hmac.digest(self._find_key() or os.urandom(32), b"noetl versions", "sha256")
        body = msgspec.json.encode(sorted((field, value.reveal()) for field, value in values.items()))
        return hmac.digest(self._key, body, "sha256").hex()[:12]
