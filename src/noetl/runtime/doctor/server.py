"""Checks of a server from outside: does it answer, what may our token, who does the work. They only look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from noetl.client import Client
from noetl.client.http import is_private
from noetl.defaults import POOL
from noetl.errors import NoetlError, NotFound, Rejected, Unavailable
from noetl.net.describe import count
from noetl.output import JSON
from noetl.playbook.kinds import Kinds
from noetl.playbook.reader import read
from noetl.runtime.doctor.checks import Diagnosis
from noetl.secret import Secret
from noetl.tool import Tools

PLAYBOOKS_MAX: Final = 500  # whose pools are looked up
NAMES_MAX: Final = 5
EMBEDDED: Final = "here"  # the worker of a server on a file, which does the work of every pool


async def examine_server(url: str, token: Secret | None) -> list[Diagnosis]:
    try:
        client = Client(url, token)
    except Rejected as error:
        return [Diagnosis("server-reachable", "error", str(error))]
    async with client:
        found, answers = privacy(client.url, token), await reachable(client)
        found.append(answers)
        if answers.grade == "error":
            return found
        known = await caller(client)
        found += [await ready(client), known]
        if known.grade != "error":
            found += await workers(client)
        return found


def privacy(url: str, token: Secret | None) -> list[Diagnosis]:
    if token is None or is_private(url):
        return []
    words = f"the token goes to {url} in the clear: whoever is on the way can read it"
    return [Diagnosis("server-tls", "warning", words, "give the server an address with https://")]


async def reachable(client: Client) -> Diagnosis:
    try:
        await client.wire.ask("GET", "/health", twice=False)
    except NoetlError as error:
        cure = "does it run, is the address right, may this machine reach it? noetl server, or noetl up"
        return Diagnosis("server-reachable", "error", str(error), cure)
    return Diagnosis("server-reachable", "ok", f"{client.url} answers")


async def ready(client: Client) -> Diagnosis:
    """It answers; has it also what it needs?"""
    try:
        await client.wire.ask("GET", "/ready", twice=False)
    except NoetlError as error:
        cure = "it has lost PostgreSQL or NATS: ask noetl doctor on its own machine, with --db and --nats"
        return Diagnosis("server-ready", "error", str(error), cure)
    return Diagnosis("server-ready", "ok", "it is ready")


async def caller(client: Client) -> Diagnosis:
    try:
        said = await client.whoami()
    except (Rejected, NotFound, Unavailable) as error:
        return Diagnosis(
            "server-token", "error", str(error), "make one on the server: noetl token create NAME --scope run"
        )
    if said.get("open"):
        return Diagnosis("server-token", "info", "it asks for no token: right for this machine alone")
    scopes = ", ".join(str(each) for each in said.get("scopes") or ()) or "none"
    return Diagnosis(
        "server-token", "ok", f'the token is that of "{said.get("name")}", with the scopes {scopes}'
    )


async def workers(client: Client) -> list[Diagnosis]:
    """Is there someone for every pool that a playbook names?"""
    try:
        said = await client.workers()
        pools = {str(each["pool"]): each for each in said.get("pools") or () if isinstance(each, dict)}
        wanted, more = await _pools_of_playbooks(client)
    except (NoetlError, KeyError, TypeError) as error:
        return [Diagnosis("server-workers", "error", f"it does not tell of its workers: {error}")]
    number = len(said.get("workers") or ())
    found = [Diagnosis("server-workers", "ok", f"{count(number, 'worker')}: {_told(pools)}")]
    if not number:
        words = "there is no worker: nothing that is started goes on"
        found = [
            Diagnosis("server-workers", "error", words, "noetl worker, with NOETL_NATS and NOETL_LINK_KEY")
        ]
    served_by_one = any(isinstance(each, dict) and each.get("name") == EMBEDDED for each in said["workers"])
    for pool, paths in sorted(wanted.items()):
        if number and pool not in pools and not served_by_one:
            words = f'no worker serves the pool "{pool}", which is named by {_some(paths)}'
            found.append(Diagnosis("server-pools", "error", words, f"noetl worker --pool {pool}"))
    if more:
        words = f"only the first {PLAYBOOKS_MAX} playbooks were asked for their pools"
        found.append(Diagnosis("server-pools", "info", words))
    return found


async def _pools_of_playbooks(client: Client) -> tuple[dict[str, list[str]], bool]:
    """Pool → the paths that name it; and whether there are more playbooks than we look at."""
    kinds = Tools.installed().kinds()
    wanted: dict[str, list[str]] = {}
    seen, after = 0, ""
    while page := await client.catalog.list(after=after):
        for each in page:
            text = await client.catalog.get(each.digest)
            for pool in pools_of(text.text, kinds):
                wanted.setdefault(pool, []).append(each.path)
        seen, after = seen + len(page), page[-1].path
        if seen >= PLAYBOOKS_MAX:
            return wanted, bool(await client.catalog.list(after=after, limit=1))
    return wanted, False


def pools_of(text: str, kinds: Kinds) -> set[str]:
    """Those whose workers run its steps. A playbook that can not be read names none."""
    _document, playbook, _problems = read(text, kinds, "playbook")
    if playbook is None:
        return set()
    usual = playbook.executor.spec.get("pool") or POOL
    return {str(each.spec.get("pool") or usual) for each in playbook.pipelines}


def _told(pools: dict[str, dict[str, JSON]]) -> str:
    return ", ".join(
        f"{name} ({each.get('busy', 0)} of {each.get('slots', 0)} slots busy)"
        for name, each in sorted(pools.items())
    )


def _some(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
