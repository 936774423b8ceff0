"""Modules beside a playbook file on a cluster: workers get them with the text, and import them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from noetl.output import JSON
from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.playbooks import HEAD

BOOK = HEAD.replace("path: t", "path: team/totals") + (
    "workload: {n: 4}\nworkflow:\n- step: start\n"
    "  loop: {in: '{{ range(8) }}', iterator: i, spec: {mode: parallel}}\n"
    "  tool:\n  - {name: sum, kind: python, input: {n: '{{ workload.n + iter.i }}'}, "
    "code: 'from rates import total\n\n      result = total(n)'}\n"
    "  - {name: load, kind: python, input: {n: '{{ _prev }}'}, script: jobs/load.py}\n"
)


async def _outputs(cluster: Cluster, path: str) -> tuple[str, JSON]:
    async with cluster.client(1) as client:
        started = await client.start(path)
    shown = await cluster.ended(started.execution_id)
    assert shown.output
    return shown.status, shown.output.data


def register(cluster: Cluster, file: Path) -> dict[str, object]:
    done = cluster.call("register", file, "--format", "json")
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)
    return dict(document)


def test_workers_import_the_modules_that_were_registered(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    (folder / "jobs").mkdir(parents=True)
    file = folder / "totals.yaml"
    file.write_text(BOOK)
    (folder / "rates.py").write_text("RATE = 10\ndef total(n):\n    return RATE * n\n")
    (folder / "jobs" / "load.py").write_text("import rates\ndef main(n):\n    return n + rates.RATE\n")
    with open_cluster(tmp_path, ClusterSize(servers=2, workers=2, isolation="pools")) as cluster:
        first = register(cluster, file)
        assert (first["version"], first["libs"]) == (1, ["jobs/load.py", "rates.py"])
        assert asyncio.run(_outputs(cluster, "team/totals")) == ("ok", [10 * (4 + i) + 10 for i in range(8)])
        (folder / "rates.py").write_text("RATE = 100\ndef total(n):\n    return RATE * n\n")
        second = register(cluster, file)
        assert (second["version"], second["created"]) == (2, True)
        (folder / "rates.py").unlink()  # the files are no longer read
        assert asyncio.run(_outputs(cluster, "team/totals")) == ("ok", [100 * (4 + i) + 100 for i in range(8)])
