"""The plugin seam: a tool describes itself by one class; `pip install` adds kinds, through entry points.

A tool's module must be light to import: what it needs for its work is imported when it works.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from msgspec import Struct

from noetl.errors import Rejected
from noetl.output import JSON, Output
from noetl.playbook.kinds import Kind, record_of

if TYPE_CHECKING:  # `noetl check` knows kinds and runs nothing: the engine would be dead weight
    from socket import socket as Socket  # noqa: N812  # the method has its name

    from aiohttp.connector import AddrInfoType

    from noetl.ports import ResultStore
    from noetl.secret import Secret


class NoKnobs(Struct):
    """A tool without knobs of its own."""


class Auth(NamedTuple):
    """The keychain entry that a task signs in with (`auth`, D57, D84)."""

    name: str
    kind: str  # bearer, basic, postgres_credential, …
    values: Mapping[str, Secret]  # by field; the only one of a single value stands under ""
    renew: Callable[[], Awaitable[Auth]]  # once more, when these were refused
    version: str = ""  # of the values; it tells nothing of them


def silent(*_said: object) -> None:
    """Nobody listens."""


class Call(NamedTuple):
    """What a tool may use besides its fields."""

    key: str  # idempotency key: one for each entry into a task, the same for all its attempts (P3)
    attempt: int
    execution_id: str
    arguments: dict[str, JSON]  # the author's own `input`, for tools that take it free (D9)
    prev: JSON  # data of the task before
    spec: dict[str, JSON]  # effective: defaults and all layers
    results: ResultStore
    folder: str | None = None  # of the playbook's file, when it came from one
    auth: Auth | None = None  # None: the task names none
    say: Callable[[str], None] = silent  # a line for whoever watches; it is not kept
    progress: Callable[[float, float | None], None] = silent  # so much is done, of so much


class AddressPolicy(NamedTuple):
    """Which addresses tools may connect to (D88). As it is made without more: for a person's own machine."""

    allow_private: bool = True  # loopback and private addresses, too
    allow: tuple[str, ...] = ()  # networks that are open whatever they are, as 10.0.0.0/8

    @classmethod
    def of_server(cls, networks: str) -> AddressPolicy:
        """For workers of a server: the world, and networks with blanks or commas between. Raises Rejected."""
        from ipaddress import ip_network

        allow = tuple(networks.replace(",", " ").split())
        for each in allow:
            try:
                ip_network(each)
            except ValueError as error:
                words = f'"{each[:80]}" is no network: write it as 10.0.0.0/8 or fd00::/8, or as one address'
                raise Rejected("bad-setting", words) from error
        return cls(allow_private=False, allow=allow)

    def refusal(self, address: str) -> str | None:
        """Why there is no way to it; None: there is one."""
        from ipaddress import ip_network

        from noetl.addresses import refusal

        networks = [ip_network(each) for each in self.allow]
        return refusal(address, allow_private=self.allow_private, allow=networks)

    def socket(self, found: AddrInfoType) -> Socket:
        """For the final address, whatever name or redirect led there. Raises PermissionError."""
        import errno
        from socket import socket

        family, kind, protocol, _, place = found
        reason = self.refusal(str(place[0]))
        if reason is not None:
            raise PermissionError(errno.EPERM, reason)
        return socket(family, kind, protocol)


class Tool(Protocol):
    """One kind of work. Its structs give validation, JSON Schema and the reference page.

    A worker makes one of each kind and closes it in the end, so that pools can live in it.
    """

    kind: ClassVar[str]  # its name in YAML
    Input: ClassVar[type[Struct]]  # its fields
    Spec: ClassVar[type[Struct]] = NoKnobs  # its knobs under `spec`, beside timeout, result and retry
    pure: ClassVar[bool] = False  # no effect on the world
    free_input: ClassVar[bool] = False  # `input` holds the author's own arguments (D9)
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()  # of each group of fields exactly one is given
    defaults: ClassVar[Mapping[str, JSON]] = {}  # the lowest layer of `spec`
    connects: ClassVar[bool] = False  # to where an author says: it is made with the fields of AddressPolicy
    # What of its data the worker looks at before it goes on. "depth": it comes from a strict decoder of JSON;
    # "nothing": the tool has looked itself, and its own part is plain by the way it is made.
    unjudged: ClassVar[Literal["all", "depth", "nothing"]] = "all"
    output: ClassVar[str | None] = None  # its own part of the output: "http" for output.http
    example: ClassVar[str] = ""  # a small task in YAML: shown, and run by the contract

    async def run(self, input: Any, call: Call) -> Output:
        """Do it. What the world does is never raised: it is an Output with an error.

        The worker ends it by cancellation: at its timeout, or when the frame is not ours any more.
        """
        raise NotImplementedError(f"{self.kind} is no call: its frame is parked")

    async def close(self) -> None:
        """Give back what it holds."""
        return


class Tools:
    """The kinds that are there, imported when first used."""

    def __init__(self, found: Mapping[str, EntryPoint], policy: AddressPolicy | None = None) -> None:
        self._found = found
        self._policy = policy or AddressPolicy()

    @classmethod
    def installed(cls, policy: AddressPolicy | None = None) -> Tools:
        """`policy`: where they may connect to; without one, as for a person's own machine."""
        return cls({point.name: point for point in entry_points(group="noetl.tools")}, policy)

    def kinds(self) -> dict[str, Kind]:
        """What the language must know of them."""
        return {name: describe(self._found[name].load()) for name in sorted(self._found)}

    def make(self, kind: str) -> Tool | None:
        """A fresh one; None: there is no such kind here."""
        point = self._found.get(kind)
        if point is None:
            return None
        made = point.load()
        tool: Tool = made(**self._policy._asdict()) if made.connects else made()
        return tool


def describe(tool: type[Tool]) -> Kind:
    """A tool as the reader of playbooks sees it."""
    return Kind(
        name=tool.kind,
        doc=(tool.__doc__ or "").strip(),
        fields=record_of(tool.Input, f"{tool.kind} task"),
        knobs=record_of(tool.Spec, f"spec.{tool.kind}"),
        free_input=tool.free_input,
        pure=tool.pure,
        one_of=tool.one_of,
        defaults=tool.defaults,
        output=tool.output,
    )
