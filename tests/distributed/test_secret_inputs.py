"""Secret inputs on a cluster: workers get them for the frames that they hold, and no form of one is found anywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.distributed.cluster import Cluster, ClusterSize, open_cluster
from tests.e2e.test_secrets import MARKER, echoing
from tests.secret_inputs import COUNT, SECRETS, found_in, playbook


async def _tables(cluster: Cluster) -> list[str]:
    """The rows of all tables as text."""
    async with cluster.connected() as connection:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'")
        return [str(await connection.fetch(f'SELECT * FROM noetl."{each[0]}"')) for each in names]


async def _kept(cluster: Cluster) -> set[str]:
    async with cluster.connected() as connection:
        found = await connection.fetch("SELECT name FROM noetl.secret_inputs WHERE body <> ''::bytea")
    return {row["name"] for row in found}


def test_no_form_of_a_secret_input_is_found_anywhere(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    options = []
    for name, value in SECRETS.items():
        file = tmp_path / "given" / name
        file.write_text(value, "utf-8", newline="")
        options += ["--secret", f"{name}=@{file}"]
    (tmp_path / "cluster").mkdir()
    size = ClusterSize(servers=2, workers=2, isolation="pools")
    with echoing() as echo, open_cluster(tmp_path / "cluster", size) as cluster:
        text = playbook(echo)
        (cluster.folder / "t.yaml").write_text(text, "utf-8")
        done = cluster.call("run", "t.yaml", "--set", "open=visible", *options)
        id = done.stdout.partition("\n")[0]
        assert done.returncode == 1, done
        assert asyncio.run(_kept(cluster)) == {id}
        answers = [done, cluster.call("retry", id, server=1), cluster.call("fork", id, "--from", "start", "--yes")]
        answers += [cluster.call(command, id, server=1) for command in ("show", "events", "logs", "output", "state")]
        said = [part for each in answers for part in (each.stdout, each.stderr)]
        shown = asyncio.run(cluster.shown(id))
        assert {each.step for each in shown.steps if each.status != "ok"} == {"t1", "t5", "t6", "t9"}
        tables = asyncio.run(_tables(cluster))
        for each in ("last", id):  # first the fork, which keeps results of the other one
            deleted = cluster.call("delete", each, "--yes")
            assert deleted.returncode == 0, deleted
        assert asyncio.run(_kept(cluster)) == set()
        for process in cluster.processes:
            process.stop()
        files = [each for each in cluster.folder.rglob("*") if each.is_file() and each.suffix != ".yaml"]
        printed = cluster.output()
        kept = [each.read_bytes() for each in files]
    assert found_in(*kept, *tables, *said, printed) == []
    assert MARKER in "".join(said)
    assert "visible" in "".join(tables)
    assert "".join(said).count("***") > COUNT
