"""The plugin interface for tools: one class describes a tool, and an entry point makes it known.

`noetl check` imports the modules of all tools to learn their fields. A tool's module must therefore be cheap
to import: import heavy libraries inside `run`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from msgspec import Struct

from noetl.cache import LazyMapping
from noetl.entry_points import entry_points
from noetl.errors import NotFound, Rejected
from noetl.output import JSON, Output
from noetl.playbook.kinds import Kind, Kinds, record_of

if TYPE_CHECKING:  # not at run time: `noetl check` needs the kinds, but not the engine
    from socket import socket as Socket  # noqa: N812  # the method is named `socket`

    from aiohttp.connector import AddrInfoType

    from noetl.ports import ResultStore
    from noetl.secret import Secret


class NoOptions(Struct):
    """The `Spec` of a tool without options of its own."""


class Auth(NamedTuple):
    """The credential that a task uses: the keychain entry named by `auth` (D57, D84)."""

    name: str
    kind: str  # bearer, basic, postgres_credential, …
    values: Mapping[str, Secret]  # by field name; a credential with a single value has the key ""
    renew: Callable[[], Awaitable[Auth]]  # fetches the credential again, after a service has refused it
    version: str = ""  # of the values; it reveals nothing about them


def discard(*_arguments: object) -> None:
    """The default of `Call.say` and `Call.progress`: nothing listens."""


def unmasked(value: JSON) -> JSON:
    """The default of `Call.mask`: no credential is used."""
    return value


async def no_keychain(name: str) -> Auth:
    """The default of `Call.credential`: there is no keychain."""
    raise NotFound(f'keychain entry "{name}": this worker has no keychain')


class Call(NamedTuple):
    """The context of one call: what a tool may use besides its fields."""

    key: str  # idempotency key: the same for all attempts of one entry into a task (P3)
    attempt: int
    execution_id: str
    arguments: dict[str, JSON]  # the author's own `input`, for tools with `free_input` (D9)
    prev: JSON  # output data of the previous task
    spec: dict[str, JSON]  # effective: the defaults and all layers merged
    results: ResultStore
    folder: str | None = None  # directory of the playbook file; None: the playbook was not read from a file
    auth: Auth | None = None  # None: the task has no `auth`
    refs: tuple[JSON, ...] = ()  # the fields that are Refs by their origin (D99)
    credential: Callable[[str], Awaitable[Auth]] = no_keychain  # of a keychain entry; raises NotFound, Unavailable
    say: Callable[[str], None] = discard  # shows a line to watching clients; it is not stored
    progress: Callable[[float, float | None], None] = discard  # amount done, and the total if it is known
    playbook: object = None  # the same for all calls of one playbook in a worker; None: it is not known
    mask: Callable[[JSON], JSON] = unmasked  # hides the values of credentials; `results` and the output use it anyway
    write: Callable[[Literal["out", "err"], bytes], None] = discard  # keeps bytes in the logs of the call
    libs: Mapping[str, str] = {}  # modules of the playbook, by file name


class AddressPolicy(NamedTuple):
    """Which addresses tools may connect to (D88). The defaults are for a developer's own machine."""

    allow_private: bool = True  # allow loopback and private addresses
    allow: tuple[str, ...] = ()  # networks that are always allowed, for example 10.0.0.0/8

    @classmethod
    def of_server(cls, networks: str) -> AddressPolicy:
        """The policy of a server's workers: public addresses, and these networks. Raises Rejected.

        `networks` is a list separated by spaces or commas.
        """
        from ipaddress import ip_network

        allow = tuple(networks.replace(",", " ").split())
        for network in allow:
            try:
                ip_network(network)
            except ValueError as error:
                message = f'"{network[:80]}" is not a network; write 10.0.0.0/8, fd00::/8 or a single address'
                raise Rejected("bad-setting", message) from error
        return cls(allow_private=False, allow=allow)

    def refusal(self, address: str) -> str | None:
        """Why tools may not connect to the address; None: they may."""
        from ipaddress import ip_network

        from noetl.addresses import refusal

        networks = [ip_network(network) for network in self.allow]
        return refusal(address, allow_private=self.allow_private, allow=networks)

    def socket(self, found: AddrInfoType) -> Socket:
        """A socket for a resolved address, as aiohttp's `socket_factory`. Raises PermissionError.

        The check is made here because this is the final address, after name resolution and redirects.
        """
        import errno
        from socket import socket

        family, kind, protocol, _, address = found
        reason = self.refusal(str(address[0]))
        if reason is not None:
            raise PermissionError(errno.EPERM, reason)
        return socket(family, kind, protocol)


class ToolUser(NamedTuple):
    """The user under which the programs of tasks run, if it is not that of the worker."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @classmethod
    def find(cls, name: str) -> ToolUser:
        """The user with this name. Raises Rejected if programs cannot run under it."""
        import os
        import pwd
        import subprocess
        import sys

        label = f'NOETL_TOOL_USER "{name}"'
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise Rejected(
                "bad-setting", f"{label}: there is no such user: useradd --system --create-home {name}"
            ) from None
        if found.pw_uid == 0:
            raise Rejected("bad-setting", f"{label}: this is root; name a user without rights")
        if os.geteuid() != 0:
            message = "only root can run programs as another user; start this process as root, or leave it unset"
            raise Rejected("bad-setting", f"{label}: {message}")
        groups = tuple(os.getgrouplist(name, found.pw_gid))
        program = [sys.executable, "-I", "-S", "-c", "import sys; open(sys.argv[1]).close()", __file__]
        try:
            done = subprocess.run(
                program,
                user=found.pw_uid,
                group=found.pw_gid,
                extra_groups=groups,
                cwd="/",
                env={},
                capture_output=True,
            )
            readable = done.returncode == 0
        except OSError:
            readable = False
        if not readable:
            message = f"it may not execute {sys.executable}, or not read the packages of NoETL; install them outside of"
            raise Rejected("bad-setting", f"{label}: {message} the folder of another user")
        return cls(name, found.pw_uid, found.pw_gid, groups, found.pw_dir)

    def give(self, folder: str) -> None:
        """Make the user the owner of a new folder."""
        import os

        os.chown(folder, self.uid, self.gid)


class CodeFiles(NamedTuple):
    """The files that are a part of a task's code, as far as they are known before a call."""

    paths: tuple[Path, ...] = ()  # also those that do not exist, if the code would use them
    complete: bool = True  # False: the code may read other files


class Tool(Protocol):
    """One kind of task. Validation, JSON Schema and the reference page are derived from its structs.

    A worker creates one instance of each kind and closes it at shutdown, so an instance can hold pools.
    """

    kind: ClassVar[str]  # its name in YAML
    Input: ClassVar[type[Struct]]  # its fields
    Spec: ClassVar[type[Struct]] = NoOptions  # its options under `spec`, besides timeout, result and retry
    pure: ClassVar[bool] = False  # it has no side effects
    free_input: ClassVar[bool] = False  # `input` holds the author's own arguments (D9)
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()  # exactly one field of each group must be given
    defaults: ClassVar[Mapping[str, JSON]] = {}  # the lowest layer of `spec`
    # It connects to addresses that a playbook names: its constructor takes the fields of AddressPolicy.
    connects: ClassVar[bool] = False
    # It runs programs of authors: its constructor takes `user`, a ToolUser or None. If it also takes `nice`, it gets
    # how much lower their priority is than that of this process.
    runs_programs: ClassVar[bool] = False
    # Which checks the worker makes on the output. "all": everything; "depth": only nesting, because the data
    # comes from a strict JSON decoder; "nothing": the tool has checked the data, and its own part is plain.
    unjudged: ClassVar[Literal["all", "depth", "nothing"]] = "all"
    output: ClassVar[str | None] = None  # the tool's own part of the output: "http" for output.http
    # The fields of that part, each with a default; an output without its own part gets the defaults.
    # None: the fields are not described, so `noetl check` accepts any name.
    OutputPart: ClassVar[type[Struct] | None] = None
    # Keys of every task that it does not use, so that `noetl check` reports them: "auth", "timeout", "timeout.read".
    ignores: ClassVar[tuple[str, ...]] = ()
    # The kinds of its own failures, besides those of every call (`timeout`, `input`, …), for the check of `retry.on`.
    # None: they are not described, so `noetl check` accepts any name.
    failures: ClassVar[tuple[str, ...] | None] = None
    example: ClassVar[str] = ""  # a short task in YAML: shown by the help, and run by the contract tests

    async def run(self, input: Any, call: Call) -> Output:
        """Make one call. Failures of external systems are not raised: return an Output with an error.

        The worker cancels the call at its timeout, or when it has lost the lease of the frame.
        """
        raise NotImplementedError(f"{self.kind} makes no call: the engine parks its frame")

    @classmethod
    def code_files(cls, fields: Mapping[str, JSON], folder: str | None) -> CodeFiles:
        """The files that are a part of the task's code, beside its text. A fork repeats the task when one changes.

        `fields`: as written in the playbook, with templates. `folder`: of the playbook; None: it is not known, and
        only `complete` counts.
        """
        del fields, folder
        return CodeFiles()

    async def close(self) -> None:
        """Release resources."""
        return


class ToolPoint(Protocol):
    """Where a tool is: an entry point."""

    def load(self) -> type[Tool]:
        """Import the tool."""
        ...


class Tools:
    """The installed tool kinds. A tool is imported at first use."""

    def __init__(
        self,
        found: Mapping[str, ToolPoint],
        policy: AddressPolicy | None = None,
        user: ToolUser | None = None,
        nice: int = 0,
    ) -> None:
        self._found = found
        self._policy = policy or AddressPolicy()
        self._user, self._nice = user, nice

    @classmethod
    def installed(cls, policy: AddressPolicy | None = None, user: ToolUser | None = None, nice: int = 0) -> Tools:
        """All kinds with an entry point. `policy` limits where they connect to; default: AddressPolicy().

        `user`: runs the programs of tasks; None: that of this process. `nice`: how much lower their priority is.
        """
        return cls({point.name: point for point in entry_points("noetl.tools")}, policy, user, nice)

    @classmethod
    def built_in(cls) -> Tools:
        """The kinds of NoETL itself, without those of plugins."""
        points = entry_points("noetl.tools")
        return cls({point.name: point for point in points if point.distribution == "noetl"})

    def kinds(self) -> Kinds:
        """Descriptions of all kinds, for the playbook reader and the checks. Each is made at first use."""
        return LazyMapping(dict.fromkeys(sorted(self._found)), lambda name: describe(self._found[name].load()))

    def class_of(self, kind: str) -> type[Tool] | None:
        """None: no such kind is installed."""
        point = self._found.get(kind)
        return None if point is None else point.load()

    def make(self, kind: str) -> Tool | None:
        """A new instance; None: no such kind is installed."""
        point = self._found.get(kind)
        if point is None:
            return None
        made = point.load()
        options = self._policy._asdict() if made.connects else {}
        if made.runs_programs and self._user is not None:
            options["user"] = self._user
        if made.runs_programs and self._nice and "nice" in signature(made).parameters:
            options["nice"] = self._nice
        tool: Tool = made(**options)
        return tool


def describe(tool: type[Tool]) -> Kind:
    """The description of a tool for the playbook reader."""
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
        output_fields=record_of(tool.OutputPart, f"output.{tool.output}") if tool.OutputPart is not None else None,
        ignores=tool.ignores,
        failures=tool.failures,
    )
