"""A server whose disk is full (test 9): it says so, it lives, it takes nothing in part, and it goes on by itself."""

from __future__ import annotations

from pathlib import Path

from noetl.cli.auditing import run_audit
from tests.api.houses import World, serve
from tests.chaos.disks import small_disk
from tests.conftest import Measuring
from tests.playbooks import HEAD

MEGABYTES = 16
EXECUTIONS = 50
RESUMED_MAX_MS = 10_000
# Both the log and the result store grow: what `keep` gives back is more than the log takes.
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


def test_a_server_on_a_full_disk_says_so_and_goes_on_by_itself_when_there_is_space(
    tmp_path: Path, figure: Measuring
) -> None:
    with small_disk(tmp_path / "disk", MEGABYTES) as disk:

        async def work(world: World) -> None:
            digest = (await world.api.register(GROWING))["digest"]
            wanted = {"digest": digest, "workload": {"text": TEXT}}
            started = [
                (await world.api.post("/executions", wanted, status=201))["execution_id"]
                for _ in range(EXECUTIONS)
            ]
            disk.fill()
            # What SQLite has written before it may write over, so it takes a few to see it.
            while (answer := await world.api.ask("POST", "/executions", wanted)).status == 201:
                started.append(answer.json["execution_id"])
            assert (answer.status, answer.json["code"]) == (507, "storage-full")
            assert "free some space" in answer.json["detail"]
            assert (await world.api.ask("GET", "/health")).status == 200
            for _ in range(20):
                answer = await world.api.ask("POST", "/executions", wanted)
                assert answer.status in (201, 507)  # a checkpoint may have made room for one more
                started += [answer.json["execution_id"]] if answer.status == 201 else []
            assert await listed(world) == set(started), "nothing of what was refused is there"
            # What `keep` gives back fits nowhere now, so some of them can not have ended.
            held = [id for id in started if await status(world, id) == "running"]
            assert held

            disk.make_space()
            since = world.desk.clock.monotonic()
            while "ok" not in {await status(world, id) for id in held}:
                await world.desk.clock.sleep(0.05)
            resumed = (world.desk.clock.monotonic() - since) * 1_000
            figure("a full disk, with space it goes on after", resumed, at_most=RESUMED_MAX_MS, unit="ms")
            for id in started:
                while (told := await world.api.get(f"/executions/{id}"))["status"] == "running":
                    await world.desk.clock.sleep(0.05)
                assert told["status"] == "ok", told
            await world.api.post("/executions", wanted, status=201)

        serve(disk.folder, work)
        assert run_audit(None, "plain", str(disk.folder / "noetl.db")) == 0, "see above what was found"


async def status(world: World, id: str) -> str:
    return str((await world.api.get(f"/executions/{id}"))["status"])


async def listed(world: World) -> set[str]:
    found: set[str] = set()
    before: str | None = None
    while True:
        page = await world.api.get("/executions", limit=100, before=before)
        found |= {each["execution_id"] for each in page["items"]}
        before = page["next"]
        if before is None:
            return found
