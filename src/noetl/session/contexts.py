"""The file of contexts: servers by name, with their tokens, readable by its owner only."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Final, NamedTuple

from noetl.secret import Secret
from noetl.session.errors import UsageError

LOCAL: Final = "local"  # the name of the database, which is always there
BYTES_MAX: Final = 1 << 20
TOKEN_BYTES_MAX: Final = 4_096
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class ServerContext(NamedTuple):
    """A named server."""

    url: str
    token: Secret | None = None
    token_file: str | None = None  # read each time


class Contexts(NamedTuple):
    """All of them, and the current one."""

    current: str = LOCAL
    known: Mapping[str, ServerContext] = {}

    def unknown(self, name: str) -> str:
        """The message for a name that is none of them."""
        names = ", ".join((LOCAL, *self.known))
        return f'there is no context "{name}"; known contexts: {names}; noetl context set NAME URL adds one'


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != LOCAL


def read_token(file: str) -> Secret:
    """Raises UsageError."""
    try:
        with open(os.path.expanduser(file), encoding="ascii") as stream:
            text = stream.read(TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise UsageError(f"{file}: the token cannot be read: {reason}") from error
    if not text:
        raise UsageError(f"{file}: the file contains no token")
    return Secret(text)


def load(path: str) -> Contexts:
    """Empty when there is no file. Raises UsageError when it cannot be read, or when others can read it."""
    try:
        with open(path, "rb") as stream:
            if stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077:
                raise UsageError(f"{path}: other users may read this file, and it may contain tokens: chmod 600 {path}")
            body = stream.read(BYTES_MAX)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return _decoded(path, body)


def _decoded(path: str, body: bytes) -> Contexts:
    import json

    try:
        match json.loads(body):
            case {"current": str(current), "contexts": {**found}}:
                return Contexts(current, {str(name): _context(each) for name, each in found.items()})
    except ValueError:
        pass
    raise UsageError(f"{path}: this is not a file of contexts; remove it, and add them with `noetl context set`")


def _context(found: object) -> ServerContext:
    match found:
        case {"url": str(url), "token": str(token)}:
            return ServerContext(url, Secret(token))
        case {"url": str(url), "token_file": str(file)}:
            return ServerContext(url, token_file=file)
        case {"url": str(url)}:
            return ServerContext(url)
    raise ValueError


def save(path: str, contexts: Contexts) -> None:
    """Replace the file in one step; only its owner can read it."""
    import json

    known = {
        name: {
            "url": each.url,
            **({} if each.token is None else {"token": each.token.reveal()}),
            **({} if each.token_file is None else {"token_file": each.token_file}),
        }
        for name, each in contexts.known.items()
    }
    body = json.dumps({"current": contexts.current, "contexts": known}, indent=2) + "\n"
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8") as stream:
                stream.write(body)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
