"""Read-only checks of a server from outside: its health, our token, its workers and their pools."""

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
from noetl.runtime.doctor import Diagnosis
from noetl.runtime.embedded import EMBEDDED_WORKER
from noetl.secret import Secret
from noetl.tool import Tools

PLAYBOOKS_MAX: Final = 500  # whose pools are checked
NAMES_MAX: Final = 5


async def check_server(url: str, token: Secret | None) -> list[Diagnosis]:
    try:
        client = Client(url, token)
    except Rejected as error:
        return [Diagnosis("server-reachable", "error", str(error))]
    async with client:
        found, answers = check_tls(client.url, token), await check_reachable(client)
        found.append(answers)
        if answers.grade == "error":
            return found
        known = await check_token(client)
        found += [await check_ready(client), known]
        if known.grade != "error":
            found += await check_workers(client)
        return found


def check_tls(url: str, token: Secret | None) -> list[Diagnosis]:
    if token is None or is_private(url):
        return []
    words = f"the token is sent to {url} without encryption: others on the network can read it"
    return [Diagnosis("server-tls", "warning", words, "serve the API with https://")]


async def check_reachable(client: Client) -> Diagnosis:
    try:
        await client.http.request("GET", "/health", retry=False)
    except NoetlError as error:
        cure = "check that it runs (noetl server, or noetl up), and that the address is right"
        return Diagnosis("server-reachable", "error", str(error), cure)
    return Diagnosis("server-reachable", "ok", f"{client.url} answers")


async def check_ready(client: Client) -> Diagnosis:
    """Whether the server reaches its own services."""
    try:
        await client.http.request("GET", "/ready", retry=False)
    except NoetlError as error:
        cure = "it has lost PostgreSQL or NATS: run noetl doctor on its machine, with --db and --nats"
        return Diagnosis("server-ready", "error", str(error), cure)
    return Diagnosis("server-ready", "ok", "the server is ready")


async def check_token(client: Client) -> Diagnosis:
    try:
        identity = await client.whoami()
    except (Rejected, NotFound, Unavailable) as error:
        cure = "create one on the server: noetl token create NAME --scope run"
        return Diagnosis("server-token", "error", str(error), cure)
    if identity.get("open"):
        return Diagnosis("server-token", "info", "it requires no token, which is only safe for local use")
    scopes = ", ".join(str(each) for each in identity.get("scopes") or ()) or "none"
    return Diagnosis("server-token", "ok", f'the token is "{identity.get("name")}", with the scopes {scopes}')


async def check_workers(client: Client) -> list[Diagnosis]:
    """Whether there is a worker for each pool that a playbook names."""
    try:
        answer = await client.workers()
        pools = {str(each["pool"]): each for each in answer.get("pools") or () if isinstance(each, dict)}
        wanted, more = await _pools_of_playbooks(client)
    except (NoetlError, KeyError, TypeError) as error:
        return [Diagnosis("server-workers", "error", f"it does not list its workers: {error}")]
    number = len(answer.get("workers") or ())
    found = [Diagnosis("server-workers", "ok", f"{count(number, 'worker')}: {_describe(pools)}")]
    if not number:
        words = "there is no worker: executions make no progress"
        found = [Diagnosis("server-workers", "error", words, "start noetl worker with NOETL_NATS and NOETL_LINK_KEY")]
    is_embedded = any(isinstance(each, dict) and each.get("name") == EMBEDDED_WORKER for each in answer["workers"])
    for pool, paths in sorted(wanted.items()):
        if number and pool not in pools and not is_embedded:
            words = f'no worker serves the pool "{pool}", which {_some(paths)} use'
            found.append(Diagnosis("server-pools", "error", words, f"noetl worker --pool {pool}"))
    if more:
        words = f"only the pools of the first {PLAYBOOKS_MAX} playbooks were checked"
        found.append(Diagnosis("server-pools", "info", words))
    return found


async def _pools_of_playbooks(client: Client) -> tuple[dict[str, list[str]], bool]:
    """Pool → the paths that name it; and whether there are more playbooks than the limit."""
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
    """The pools of a playbook. A playbook that cannot be read names none."""
    _document, playbook, _problems = read(text, kinds, "playbook")
    if playbook is None:
        return set()
    usual = playbook.executor.spec.get("pool") or POOL
    return {str(each.spec.get("pool") or usual) for each in playbook.pipelines}


def _describe(pools: dict[str, dict[str, JSON]]) -> str:
    return ", ".join(
        f"{name} ({each.get('busy', 0)} of {each.get('slots', 0)} slots busy)" for name, each in sorted(pools.items())
    )


def _some(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
