"""A server with a full disk (test 9): it reports it, stays alive, writes nothing partially, and recovers automatically."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve
from tests.chaos.disks import small_disk
from tests.conftest import Measuring
from tests.playbooks import HEAD
from tests.unit.cli.invoke import run_audit

MEGABYTES = 16
EXECUTIONS = 50
RESUMED_MAX_MS = 10_000
# Both the log and the result store grow: the output of `keep` is too large for the log.
GROWING = HEAD + (
    'workload: {text: ""}\n'
    "workflow:\n"
    "- step: start\n"
    '  loop: {in: "{{ range(20) }}", iterator: n, spec: {mode: parallel, max_in_flight: 4}}\n'
    '  tool: {kind: noop, input: {n: "{{ iter.n }}"}}\n'
    "  next: {arcs: [{step: keep}]}\n"
    "- step: keep\n"
    '  tool: {kind: noop, input: {text: "{{ workload.text ~ workload.text }}"}}\n'
    "  next: {arcs: [{step: last}]}\n"
    "- {step: last, tool: {kind: noop, input: {done: true}}}\n"
)
TEXT = "some text that fills the log quickly " * 1_000


def test_a_server_reports_a_full_disk_and_recovers_by_itself_when_there_is_space(
    tmp_path: Path, figure: Measuring
) -> None:
    with small_disk(tmp_path / "disk", MEGABYTES) as disk:

        async def work(server: ApiServer) -> None:
            digest = (await server.api.register(GROWING))["digest"]
            wanted = {"digest": digest, "workload": {"text": TEXT}}
            started = [
                (await server.api.post("/executions", wanted, status=201))["execution_id"] for _ in range(EXECUTIONS)
            ]
            disk.fill()
            # SQLite reuses space in its files, so that the first writes still succeed.
            while (answer := await server.api.ask("POST", "/executions", wanted)).status == 201:
                started.append(answer.json["execution_id"])
            assert (answer.status, answer.json["code"]) == (507, "storage-full")
            assert "free some space" in answer.json["detail"]
            assert (await server.api.ask("GET", "/health")).status == 200
            for _ in range(20):
                answer = await server.api.ask("POST", "/executions", wanted)
                assert answer.status in (201, 507)  # a checkpoint may have freed space for one more
                started += [answer.json["execution_id"]] if answer.status == 201 else []
            assert await listed(server) == set(started), "a refused start is in the list"
            # There is no space for the output of `keep`, so that some executions have not ended.
            held = [id for id in started if await status(server, id) == "running"]
            assert held

            disk.make_space()
            since = server.services.clock.monotonic()
            while "ok" not in {await status(server, id) for id in held}:
                await server.services.clock.sleep(0.05)
            resumed = (server.services.clock.monotonic() - since) * 1_000
            figure(
                "a full disk, recovery after space is free",
                resumed,
                at_most=RESUMED_MAX_MS,
                unit="ms",
                slack=6,
            )
            for id in started:
                while (shown := await server.api.get(f"/executions/{id}"))["status"] == "running":
                    await server.services.clock.sleep(0.05)
                assert shown["status"] == "ok", shown
            await server.api.post("/executions", wanted, status=201)

        serve(disk.folder, work)
        assert run_audit(None, "plain", str(disk.folder / "noetl.db")) == 0, "the output above lists the findings"


async def status(server: ApiServer, id: str) -> str:
    return str((await server.api.get(f"/executions/{id}"))["status"])


async def listed(server: ApiServer) -> set[str]:
    found: set[str] = set()
    before: str | None = None
    while True:
        page = await server.api.get("/executions", limit=100, before=before)
        found |= {each["execution_id"] for each in page["items"]}
        before = page["next"]
        if before is None:
            return found
