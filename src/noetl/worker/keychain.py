"""Credentials in a worker: fetched on first use, kept for a while, masked in whatever comes back (D57, D20).

`Keychain` is one for all frames of a worker; `Keys` is what one frame has used of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from msgspec.json import encode
from msgspec.structs import replace

from noetl.clock import Clock
from noetl.engine.commands import Start
from noetl.engine.facts import TaskDone
from noetl.engine.moves import RunTask, Work
from noetl.errors import NoetlError, NotFound, Unavailable
from noetl.net.program import CompiledTask, Program
from noetl.output import JSON, Failure, Output
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential, SecretProvider
from noetl.secret import SHOWN
from noetl.tool import Auth
from noetl.worker.masking import Mask

KEPT_S: Final = 300.0  # a value that does not say when it expires is asked for again after this
SEEN_MAX: Final = 8  # values of one entry, the newest last, that are still masked
ENTRIES_MAX: Final = 4_096
MASKS_MAX: Final = 64

# They say where, and not who: masking them would take half of the data with it.
_OPEN: Final = frozenset({"host", "port", "database"})
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "postgres_credential": ("dsn", "host", "port", "user", "password", "database"),
    "basic": ("user", "password"),
}


class _Held:
    """One entry, as far as we know it."""

    def __init__(self) -> None:
        self.fetched: FetchedCredential | None = None
        self.until = 0.0  # on the clock's pulse
        self.refused = False  # what we have did not work: the next one asks anew
        self.coming: asyncio.Future[FetchedCredential] | None = None
        self.seen: list[tuple[str, ...]] = []  # what is to be masked, for each value that was given out


class Keychain:
    """One fetch for all that wait; what it gives out it remembers, to mask it."""

    def __init__(self, provider: SecretProvider, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._held: dict[tuple[str, str, bytes], _Held] = {}
        self._masks: dict[frozenset[str], Mask] = {}

    async def get(self, credential: Credential) -> FetchedCredential:
        """Raises NotFound or Unavailable, with the name of the entry."""
        held = self._hold(credential)
        if held.fetched is not None and not held.refused and self._clock.monotonic() < held.until:
            return held.fetched
        return await self._come(held, credential)

    async def renew(self, credential: Credential, refused: str) -> FetchedCredential:
        """Another one than the version that was refused; when someone else has renewed it, that one."""
        held = self._hold(credential)
        if held.fetched is not None and held.fetched.version == refused:
            held.refused = True
        return await self.get(credential)

    def doubt(self, credential: Credential) -> None:
        """It did not work: whoever asks next gets a fresh one."""
        self._hold(credential).refused = True

    async def auth(self, credential: Credential) -> Auth:
        return self._signed_in(credential, await self.get(credential))

    def _signed_in(self, credential: Credential, fetched: FetchedCredential) -> Auth:
        async def renew() -> Auth:
            return self._signed_in(credential, await self.renew(credential, fetched.version))

        return Auth(credential.name, credential.kind, fetched.values, renew, fetched.version)

    def _hold(self, credential: Credential) -> _Held:
        key = credential.name, credential.kind, encode(credential.fields)
        if key not in self._held:
            while len(self._held) >= ENTRIES_MAX:
                del self._held[next(iter(self._held))]
            self._held[key] = _Held()
        return self._held[key]

    async def _come(self, held: _Held, credential: Credential) -> FetchedCredential:
        if held.coming is None:
            held.coming = asyncio.ensure_future(self._fetch(held, credential))
            held.coming.add_done_callback(_seen)
        return await asyncio.shield(held.coming)  # whoever gives up does not end it for the others

    async def _fetch(self, held: _Held, credential: Credential) -> FetchedCredential:
        try:
            fetched = await self._provider.fetch(credential, fresh=held.refused)
        except (NotFound, Unavailable):
            raise
        except Exception as error:  # noqa: BLE001  # a border: what it says may hold what nobody should see
            reason = f'keychain entry "{credential.name}" can not be read: {type(error).__name__}'
            raise Unavailable(reason) from None
        finally:
            held.coming = None
        kept_s = KEPT_S if fetched.expires_s is None else min(KEPT_S, fetched.expires_s)
        held.fetched, held.refused = fetched, False
        held.until = self._clock.monotonic() + kept_s
        values = tuple(hidden(credential, fetched))
        held.seen = [*(each for each in held.seen if each != values), values][-SEEN_MAX:]
        return fetched

    def mask(self, credentials: Iterable[Credential]) -> Mask:
        """For all that these entries have given out lately, also before they were renewed."""
        seen = (each for credential in credentials for each in self._hold(credential).seen)
        values = frozenset(value for each in seen for value in each)
        if values not in self._masks:
            while len(self._masks) >= MASKS_MAX:
                del self._masks[next(iter(self._masks))]
            self._masks[values] = Mask(values)
        return self._masks[values]

    async def probed(self, program: Program, start: Start) -> Start:
        """The request with the versions of its credentials, or with the first that does not resolve (D57)."""
        entries = program.playbook.keychain
        if not entries or start.error is not None:
            return start
        found = await asyncio.gather(*map(self.get, entries), return_exceptions=True)
        versions: dict[str, str] = {}
        for entry, each in zip(entries, found, strict=True):
            if isinstance(each, NoetlError):
                return replace(start, error=failure_of(each))
            if isinstance(each, BaseException):
                raise each
            versions[entry.name] = each.version
        return replace(start, keychain=versions)


def _seen(coming: asyncio.Future[FetchedCredential]) -> None:
    if not coming.cancelled():
        coming.exception()  # seen: whoever waited may be gone


def hidden(credential: Credential, fetched: FetchedCredential) -> Iterable[str]:
    """What must not show. A user's name is hidden when it came from elsewhere than the playbook."""
    known = _FIELDS.get(credential.kind, ())
    for field, secret in fetched.values.items():
        if field in known and field in _OPEN:
            continue
        if field == "user" and known and not isinstance(credential.fields.get(field), dict):
            continue
        yield secret.reveal()


def failure_of(error: NoetlError) -> Failure:
    return Failure(kind="credential", message=str(error), retryable=isinstance(error, Unavailable))


def entry_named(name: JSON, keychain: Iterable[Credential]) -> Credential | None:
    return next((each for each in keychain if each.name == name), None)


def signs_in_with(called: RunTask) -> Credential | None:
    """The entry that a call is given: its `auth`, or the one that `secrets` asks about."""
    name = called.input.get("name") if called.task.kind == "secrets" else called.task.auth
    return entry_named(name, called.keychain)


def read_by(task: CompiledTask, keychain: Iterable[Credential]) -> list[Credential]:
    """The entries that the templates of a task read."""
    paths = [read.path for read in (*task.input.reads, *task.fields.reads) if read.path[0] == "keychain"]
    names = {path[1] if len(path) > 1 else None for path in paths}
    return [each for each in keychain if each.name in names or None in names]


class Ready(NamedTuple):
    """What a task may read; or why it can not be called."""

    values: dict[str, JSON] | None = None  # None: its templates read no entry
    missing: Output | None = None


class Keys:
    """The credentials of one frame: values for its tasks, and masks for what they give back."""

    def __init__(self, keychain: Keychain | None) -> None:
        self._keychain = keychain
        self._used: dict[str, Credential] = {}
        self._begun = False

    async def ready(self, work: Work, *, waits: bool) -> Ready:
        """Before the frame is asked what it wants. `waits`: nothing is called yet."""
        keychain, (pipeline, frame, place) = self._keychain, work
        if keychain is None or not place.keychain or waits or frame.answer is not None:
            return Ready()
        if not 0 <= frame.pc < len(pipeline.tasks):
            return Ready()
        await self._recall(keychain, work)
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
                values[entry.name] = _stand_in(entry)
        return Ready({entry.name: values[entry.name] for entry in read} if read else None, missing)

    async def _recall(self, keychain: Keychain, work: Work) -> None:
        """A frame that someone else began may have used any entry of its tasks: live and resumed agree."""
        if self._begun:
            return
        self._begun = True
        if not work.frame.calls:
            return
        for task in work.pipeline.tasks:
            for entry in (*read_by(task, work.place.keychain), entry_named(task.auth, work.place.keychain)):
                if entry is not None:
                    with suppress(NoetlError):  # what is gone can not be masked, and is not needed
                        await keychain.get(entry)
                        self._used[entry.name] = entry

    def taken(self, called: RunTask, output: Output) -> Output:
        """What a tool gave back, without any value that the frame has used."""
        if self._keychain is None or not self._used:
            return output
        own = output.own.get("http")
        if isinstance(own, dict) and own.get("status") == 401:
            for entry in read_by(called.task, called.keychain):
                self._keychain.doubt(entry)
        return self._keychain.mask(self._used.values()).output(output)

    def masked(self, text: str) -> str:
        """The same for a line that a tool says while it works."""
        if self._keychain is None or not self._used:
            return text
        return self._keychain.mask(self._used.values()).text(text)

    def decided(self, fact: TaskDone, missing: Output | None) -> TaskDone:
        """No call was made. A task that its rules do not skip fails for what is missing."""
        if self._keychain is None or not self._used or fact.status == "skipped":
            return fact
        if missing is not None:
            return replace(fact, output=missing, error=None)
        mask = self._keychain.mask(self._used.values())
        output = fact.output and mask.output(fact.output)
        return replace(fact, output=output, error=fact.error and mask.failure(fact.error))


def plain(fetched: FetchedCredential) -> JSON:
    """As templates read it: the text of a single value, else a mapping of the fields."""
    values: Mapping[str, str] = {field: secret.reveal() for field, secret in fetched.values.items()}
    return values[""] if values.keys() == {""} else dict(values)


def _stand_in(entry: Credential) -> JSON:
    """For templates of a task that is not called: they still decide what its rules see."""
    fields = _FIELDS.get(entry.kind)
    return SHOWN if fields is None else dict.fromkeys(fields, SHOWN)
