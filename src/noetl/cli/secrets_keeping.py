"""`noetl secrets set`, `list`, `rm` and `rotate`: values come in, and none ever goes out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from getpass import getpass
from pathlib import Path
from typing import Final, Protocol

from noetl.cli.choices import FormatChoice
from noetl.cli.contexts import server_at
from noetl.cli.encoded import as_document
from noetl.cli.exits import OK, Usage
from noetl.cli.looking import screen_for
from noetl.cli.screen import Screen
from noetl.cli.times import ago
from noetl.clock import SystemClock
from noetl.errors import NotFound
from noetl.escape import visible
from noetl.output import JSON
from noetl.runtime import open_local_store
from noetl.runtime.settings import database_path
from noetl.views.log import instant
from noetl.views.styled_text import Styled, table

VALUE_BYTES_MAX: Final = 1 << 20  # of what is read; what may be stored is less


class SecretDesk(Protocol):
    """Where secrets are kept: values go in, and none comes out."""

    async def set(self, name: str, value: str) -> int:
        """Its new version. Raises Rejected when it can not be a secret."""
        ...

    async def remove(self, name: str) -> None:
        """Raises NotFound."""
        ...

    async def rotate(self) -> int:
        """How many were encrypted under a new key."""
        ...

    async def list(self) -> Sequence[Listed]: ...


class Listed(Protocol):
    """A secret as people see it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def at(self) -> datetime: ...


@contextmanager
def secrets_at(db: str | None) -> Iterator[SecretDesk]:
    """Those of a server, or of a file, which is made when it is not there."""
    if (server := server_at(db)) is not None:
        from noetl.cli.remote_desks import ServerSecrets

        yield ServerSecrets(server)
        return
    disk = open_local_store(database_path(db))
    try:
        yield disk.secrets
    finally:
        disk.close()


def _is_empty(db: str | None) -> bool:
    """There is no file yet, and looking makes none."""
    return server_at(db) is None and not database_path(db).exists()


def run_set(name: str, given: str | None, db: str | None, form: FormatChoice) -> int:
    value = _value(name, given)
    with secrets_at(db) as secrets:
        version = asyncio.run(secrets.set(name, value))
    return _tell(form, {"name": name, "version": version}, f"{visible(name)}: version {version} is stored")


def run_list(db: str | None, form: FormatChoice) -> int:
    found: Sequence[Listed] = ()
    if not _is_empty(db):
        with secrets_at(db) as secrets:
            found = asyncio.run(secrets.list())
    if form == "json":
        told = [{"name": each.name, "version": each.version, "at": instant(each.at)} for each in found]
        sys.stdout.write(as_document(told))
    elif not found:
        Screen(sys.stderr).line("nothing to list: no secret is stored here")
    else:
        now = SystemClock().now()
        titles = [Styled(title, "faint") for title in ("NAME", "VERSION", "SET")]
        rows = [
            [
                Styled(visible(each.name), "name"),
                Styled(str(each.version)),
                Styled(ago(each.at, now), "faint"),
            ]
            for each in found
        ]
        screen_for(form).lines(table([titles, *rows], indent=""))
    return OK


def run_remove(name: str, db: str | None, form: FormatChoice) -> int:
    if _is_empty(db):
        raise NotFound(f'no secret "{name}" is stored')
    with secrets_at(db) as secrets:
        asyncio.run(secrets.remove(name))
    return _tell(form, {"name": name}, f"{visible(name)}: removed")


def run_rotate(db: str | None, form: FormatChoice) -> int:
    if _is_empty(db):
        raise NotFound("no secret is stored, so there is no key to change")
    with secrets_at(db) as secrets:
        count = asyncio.run(secrets.rotate())
    return _tell(form, {"count": count}, f"{count:,} stored under a new key")


def _value(name: str, given: str | None) -> str:
    """Never from the command line without a warning: others may see it there. Raises Usage."""
    if given is None and sys.stdin is not None and sys.stdin.isatty():
        return getpass(f"Value of {visible(name)}: ", sys.stderr)
    if given is None or given == "-":
        if sys.stdin is None:
            raise Usage("there is no standard input to read the value from")
        return _text(sys.stdin.buffer.read(VALUE_BYTES_MAX + 1), "standard input")
    if given.startswith("@"):
        try:
            with Path(given[1:]).expanduser().open("rb") as file:
                return _text(file.read(VALUE_BYTES_MAX + 1), f'"{given[1:]}"')
        except OSError as error:
            raise Usage(f'"{given[1:]}" can not be read: {error.strerror}') from error
    words = "others on this machine, and your shell's history, may see it: use @FILE or standard input"
    Screen(sys.stderr).line(f"the value stands on the command line; {words}")
    return given


def _text(body: bytes, what: str) -> str:
    try:
        return body.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise Usage(f"{what} holds what is no UTF-8 text") from None


def _tell(form: FormatChoice, document: dict[str, JSON], words: str) -> int:
    if form == "json":
        sys.stdout.write(as_document(document))
    else:
        screen_for(form).line(words)
    return OK
