"""The OpenAPI document is accurate: no request that it allows or forbids causes an internal error.

schemathesis generates requests from the document and sends them over a loopback port with various tokens.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from noetl.server.services import ServerSettings
from tests.api.servers import FAILING, HELLO, WAITING, opened

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 12  # for each operation, with an admin token
FEW = 2
# No subscribers are allowed, so that no stream is endless: the response is 503, which is not a bug.
SETTINGS = ServerSettings(requests_per_s=1e6, requests_burst=1e6, subscribers_max=0)


class Running:
    """A server on its own thread, because schemathesis blocks while it waits for responses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.tokens: dict[str, str] = {}
        self.known: dict[str, list[str]] = {}
        self.url = ""

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with opened(self._folder, SETTINGS) as server:
            server.api.token = await server.token("admin")
            ids = [await server.api.run(text) for text in (HELLO, FAILING)]
            digest = (await server.api.register(WAITING))["digest"]
            told = await server.api.post("/executions", {"path": "waiting"}, status=201)
            self.known = {
                "execution_id": [*ids, told["execution_id"]],
                "path": ["t", "waiting"],
                "digest": [digest],
                "step": ["start"],
                "version": ["1"],
                "from": ["1"],
                "to": ["1"],
                "kind": ["http", "python"],
                "prefix": [ids[0][:4]],
            }
            self.url = server.server.url
            self.tokens = {
                "nobody": "",
                "expired": await server.expired("admin"),
                "unknown": f"noetl_{'0' * 16}_{'x' * 43}",
                "read": await server.token("read"),
                "admin": server.api.token,
            }
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(180)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(180)


# The thread of the server uses random numbers, which hypothesis would attribute to the strategies.
THROWS_DICE = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@contextmanager
def described(folder: Path) -> Iterator[tuple[Running, Any]]:
    with Running(folder) as running:
        yield (
            running,
            schemathesis.openapi.from_url(
                f"{running.url}/schema/openapi.json", headers={"Authorization": f"Bearer {running.tokens['read']}"}
            ),
        )


def operations(schema: Any) -> Iterator[Any]:
    for found in schema.get_all_operations():
        yield found.ok()


def tried(
    operation: Any, token: str, examples: int, checks: list[Any], known: dict[str, list[str]] | None = None
) -> list[int]:
    """The statuses of the responses. `known`: existing names, which replace every second generated one."""
    statuses: list[int] = []
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        case.headers.pop("Authorization", None)
        for place in (case.path_parameters, case.query):
            for name in (set(place) & set(known or {})) if len(statuses) % 2 else ():
                place[name] = (known or {})[name][len(statuses) // 2 % len((known or {})[name])]
        response = case.call(headers=headers)
        statuses.append(response.status_code)
        if response.status_code != 503:
            case.validate_response(response, checks=checks)

    ask()
    return statuses


@THROWS_DICE
def test_no_valid_request_causes_an_internal_error(tmp_path: Path) -> None:
    with described(tmp_path) as (running, schema):
        count = 0
        for operation in operations(schema):
            if operation.path == "/tokens/{id}":
                continue  # it might revoke its own token
            tried(operation, running.tokens["admin"], EXAMPLES, CHECKS, running.known)
            count += 1
        assert count > 40


@THROWS_DICE
@pytest.mark.parametrize("who", ["nobody", "expired", "unknown", "read"])
def test_no_changing_request_succeeds_without_its_scope(tmp_path: Path, who: str) -> None:
    looking = {
        "/playbooks/check",
        "/playbooks/explain",
        "/playbooks/graph",
        "/playbooks/test",
        "/playbooks/what-if",
        "/executions/{execution_id}/debug/evaluate",
    }
    with described(tmp_path) as (running, schema):
        for operation in operations(schema):
            # A trigger verifies its requests itself; signing in needs no scope.
            if operation.path in ("/health", "/ready", "/hooks/{path}", "/session"):
                continue
            statuses = tried(operation, running.tokens[who], FEW, [not_a_server_error])
            if who == "read":
                if operation.method != "get" and operation.path not in looking:
                    assert set(statuses) <= {403, 415}, operation.path
            else:
                assert set(statuses) <= {401, 415}, (operation.path, statuses)
