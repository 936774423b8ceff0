"""Credentials in a worker: fetched on first use, cached for a while, and masked in all outputs (D57, D20).

All frames of a worker share one `Keychain`; `FrameCredentials` are those that one frame has used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from noetl.cache import BoundedCache
from noetl.clock import Clock
from noetl.engine.commands import Start
from noetl.engine.facts import TaskDone
from noetl.engine.moves import RunTask, Work
from noetl.engine.scopes import is_foreign
from noetl.errors import NoetlError, NotFound, Unavailable
from noetl.masking import Mask
from noetl.net.credentials import entry_names, read_names
from noetl.net.program import CompiledTask, Program
from noetl.output import JSON, Failure, Output, failed
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import SHOWN
from noetl.tool import Auth

TTL_S: Final = 300.0  # of a value without an expiry
VALUES_MAX: Final = 8  # recent values of one entry that are still masked
ENTRIES_MAX: Final = 4_096
MASKS_MAX: Final = 64
LINE_CHARS_MIN: Final = 32  # of a .creds file: its token and its seed are longer, its words shorter

# Not secret: masking them would hide half of the data.
_OPEN: Final = frozenset({"host", "port", "database", "region", "endpoint", "account"})
KNOWN_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "postgres_credential": ("dsn", "host", "port", "user", "password", "database"),
    "nats_credential": ("url", "user", "password", "token", "creds", "nkey"),
    "basic": ("user", "password"),
    "aws_credential": ("access_key_id", "secret_access_key", "session_token", "region", "endpoint"),
    "azure_credential": ("account", "key", "sas_token", "endpoint"),
}


class _Entry:
    """The cached values of one keychain entry."""

    def __init__(self) -> None:
        self.fetched: FetchedCredential | None = None
        self.until = 0.0  # on the monotonic clock
        self.refused = False  # the value was rejected: the next request fetches a fresh one
        self.fetching: asyncio.Future[FetchedCredential] | None = None
        self.hidden: list[tuple[str, ...]] = []  # the texts to mask, for each recent value


class Keychain:
    """Concurrent requests share one fetch. It remembers the values that it returns, to mask them."""

    def __init__(self, provider: SecretProvider, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._entries: BoundedCache[tuple[str, str, bytes], _Entry] = BoundedCache(ENTRIES_MAX)
        self._masks: BoundedCache[frozenset[str], Mask] = BoundedCache(MASKS_MAX)

    async def get(self, credential: Credential) -> FetchedCredential:
        """The current value. Raises NotFound or Unavailable, with the name of the entry."""
        held = self._entry(credential)
        if held.fetched is not None and not held.refused and self._clock.monotonic() < held.until:
            return held.fetched
        return await self._join_fetch(held, credential)

    async def renew(self, credential: Credential, refused: str) -> FetchedCredential:
        """A newer value than the rejected version; if another call has already fetched one, that."""
        held = self._entry(credential)
        if held.fetched is not None and held.fetched.version == refused:
            held.refused = True
        return await self.get(credential)

    def invalidate(self, credential: Credential) -> None:
        """The value was rejected: the next request fetches a fresh one."""
        self._entry(credential).refused = True

    async def auth(self, credential: Credential) -> Auth:
        return self._signed_in(credential, await self.get(credential))

    def _signed_in(self, credential: Credential, fetched: FetchedCredential) -> Auth:
        async def renew() -> Auth:
            return self._signed_in(credential, await self.renew(credential, fetched.version))

        return Auth(credential.name, credential.kind, fetched.values, renew, fetched.version)

    def _entry(self, credential: Credential) -> _Entry:
        key = credential.name, credential.kind, encode(credential.fields)
        return self._entries.get(key) or self._entries.put(key, _Entry())

    async def _join_fetch(self, held: _Entry, credential: Credential) -> FetchedCredential:
        if held.fetching is None:
            held.fetching = asyncio.ensure_future(self._fetch(held, credential))
            held.fetching.add_done_callback(_retrieve)
        return await asyncio.shield(held.fetching)  # a cancelled caller does not cancel the fetch for the others

    async def _fetch(self, held: _Entry, credential: Credential) -> FetchedCredential:
        try:
            fetched = await self._provider.fetch(credential, fresh=held.refused)
        except (NotFound, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001  # the message of a foreign exception may contain the secret
            reason = f'keychain entry "{credential.name}" cannot be read: {type(error).__name__}'
            raise Unavailable(reason) from None
        finally:
            held.fetching = None
        ttl_s = TTL_S if fetched.expires_s is None else min(TTL_S, fetched.expires_s)
        held.fetched, held.refused = fetched, False
        held.until = self._clock.monotonic() + ttl_s
        values = tuple(hidden(credential, fetched))
        held.hidden = [*(each for each in held.hidden if each != values), values][-VALUES_MAX:]
        return fetched

    def mask(self, credentials: Iterable[Credential]) -> Mask:
        """A mask for all recent values of these entries, including those before a renewal."""
        recent = (each for credential in credentials for each in self._entry(credential).hidden)
        values = frozenset(value for each in recent for value in each)
        return self._masks.get(values) or self._masks.put(values, Mask(values))

    async def resolve_for_start(self, execution_id: str, program: Program, start: Start) -> Start:
        """The request with the versions of its credentials, or with all that do not resolve (D57, D97)."""
        entries = program.keychain_of(execution_id)
        if not entries or start.error is not None:
            return start
        found = await asyncio.gather(*map(self.get, entries), return_exceptions=True)
        versions: dict[str, str] = {}
        errors: list[NoetlError] = []
        for entry, each in zip(entries, found, strict=True):
            if isinstance(each, NoetlError):
                errors.append(each)
            elif isinstance(each, BaseException):
                raise each
            else:
                versions[entry.name] = each.version
        return replace(start, error=_failure_of_all(errors)) if errors else replace(start, keychain=versions)


def _retrieve(fetching: asyncio.Future[FetchedCredential]) -> None:
    if not fetching.cancelled():
        fetching.exception()  # the callers may be gone


def hidden(credential: Credential, fetched: FetchedCredential) -> Iterable[str]:
    """The texts to mask. A user name is one of them unless it is written in the playbook."""
    known = KNOWN_FIELDS.get(credential.kind, ())
    for field, secret in fetched.values.items():
        if field in known and field in _OPEN:
            continue
        if field == "user" and known and isinstance(credential.fields.get(field), str | int | float):
            continue
        yield secret.reveal()
        if credential.kind == "nats_credential" and field == "creds":
            yield from (line for line in secret.reveal().split() if len(line) >= LINE_CHARS_MIN)


def failure_of(error: NoetlError) -> Failure:
    return Failure(kind="credential", message=str(error), retryable=isinstance(error, Unavailable))


def _failure_of_all(errors: list[NoetlError]) -> Failure:
    """One failure that lists all entries which do not resolve."""
    if len(errors) == 1:
        return failure_of(errors[0])
    message = f"{len(errors)} keychain entries do not resolve: {'; '.join(map(str, errors))}"
    retryable = all(isinstance(error, Unavailable) for error in errors)
    return Failure(kind="credential", message=message, retryable=retryable)


def entry_named(name: JSON, keychain: Iterable[Credential]) -> Credential | None:
    return next((each for each in keychain if each.name == name), None)


def call_credential(called: RunTask) -> Credential | None:
    """The entry that a call uses: its `auth`, or the one that a `secrets` task names."""
    name = called.input.get("name") if called.task.kind == "secrets" else called.task.auth
    return entry_named(name, called.keychain)


def read_by(task: CompiledTask, keychain: Iterable[Credential]) -> list[Credential]:
    """The entries that the templates of a task read."""
    return _named(read_names(task), keychain)


def _named(names: frozenset[str] | None, keychain: Iterable[Credential]) -> list[Credential]:
    """The entries with these names; None: all of them."""
    return [each for each in keychain if names is None or each.name in names]


class ResolvedCredentials(NamedTuple):
    """The values that a task may read, or the failure that prevents its call."""

    values: dict[str, JSON] | None = None  # None: its templates read no entry
    missing: Output | None = None


NO_CREDENTIALS: Final = ResolvedCredentials()


class FrameCredentials:
    """The credentials of one frame: values for its tasks, and masks for their outputs."""

    def __init__(self, keychain: Keychain | None) -> None:
        self._keychain = keychain
        self._used: dict[str, Credential] = {}
        self._begun = False

    async def resolve(self, work: Work, *, waits: bool) -> ResolvedCredentials:
        """The credentials of the next task. `waits`: the frame waits, and calls nothing yet."""
        keychain, pipeline, frame, place = self._keychain, work.pipeline, work.frame, work.place
        if keychain is None or not place.keychain or waits or frame.answer is not None:
            return NO_CREDENTIALS
        if not 0 <= frame.pc < len(pipeline.tasks):
            return NO_CREDENTIALS
        await self._recall_used(keychain, work)
        task = pipeline.tasks[frame.pc]
        read = read_by(task, place.keychain)
        own = entry_named(task.auth, place.keychain) if task.auth is not None else None
        values: dict[str, JSON] = {}
        missing: Output | None = None
        for entry in (*read, *([own] if own is not None and own not in read else [])):
            try:
                self._used[entry.name] = entry
                values[entry.name] = plain(await keychain.get(entry))
            except NoetlError as error:
                missing = missing or Output(status="error", error=failure_of(error))
                values[entry.name] = _placeholder(entry)
        return ResolvedCredentials({entry.name: values[entry.name] for entry in read} if read else None, missing)

    async def _recall_used(self, keychain: Keychain, work: Work) -> None:
        """Another worker may have used any entry in this frame: mask them all, as that worker would."""
        if self._begun:
            return
        self._begun = True
        if not work.frame.calls:
            return
        for task in work.pipeline.tasks:
            for entry in _named(entry_names(task), work.place.keychain):
                with suppress(NoetlError):  # a removed entry cannot be masked, and is not needed
                    await keychain.get(entry)
                    self._used[entry.name] = entry

    def use(self, entry: Credential) -> None:
        """A call has read this entry, which its task does not name."""
        self._used[entry.name] = entry

    def mask_output(self, called: RunTask, output: Output) -> Output:
        """The output of a tool without any value that the frame has used."""
        if self._keychain is None or not self._used:
            return output
        own = output.own.get("http")
        if isinstance(own, dict) and own.get("status") == 401:
            for entry in read_by(called.task, called.keychain):
                self._keychain.invalidate(entry)
        mask = self._keychain.mask(self._used.values())
        where = output.ref["locator"].get("where") if output.ref is not None and is_foreign(output.ref) else None
        if mask.value(where) != where:
            return failed("reference", "`where` contains the value of a credential, and the log records the Ref")
        return mask.output(output)

    def mask(self) -> Mask | None:
        """For all values that the frame has used; None: it has used none."""
        return None if self._keychain is None or not self._used else self._keychain.mask(self._used.values())

    def mask_text(self, text: str) -> str:
        """The same for a line of a running tool."""
        mask = self.mask()
        return text if mask is None else mask.text(text)

    def mask_fact(self, fact: TaskDone, missing: Output | None) -> TaskDone:
        """The same for a task without a call. It fails if a credential is missing, unless it is skipped."""
        if self._keychain is None or not self._used or fact.status == "skipped":
            return fact
        if missing is not None:
            return replace(fact, output=missing, error=None)
        mask = self._keychain.mask(self._used.values())
        output = fact.output and mask.output(fact.output)
        return replace(fact, output=output, error=fact.error and mask.failure(fact.error))


def plain(fetched: FetchedCredential) -> JSON:
    """The value for templates: the text of a single value, or else a mapping of the fields.

    None: an optional secret input without a value.
    """
    values: Mapping[str, str] = {field: secret.reveal() for field, secret in fetched.values.items()}
    if not values:
        return None
    return values[""] if values.keys() == {""} else dict(values)


def _placeholder(entry: Credential) -> JSON:
    """For the templates of a task that is not called: its rules still see their results."""
    fields = KNOWN_FIELDS.get(entry.kind)
    return SHOWN if fields is None else dict.fromkeys(fields, SHOWN)
