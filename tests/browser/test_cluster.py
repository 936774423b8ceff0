"""The UI on a cluster. Its event loop runs before and after the browser: both need the same thread."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from playwright.sync_api import expect

from tests.browser.browser import Screen, chromium
from tests.browser.test_trial import clicks
from tests.distributed.cluster import ClusterSize, open_cluster

GPU: Final = (
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: train, path: demo/train}\n"
    'workflow:\n- step: start\n  spec: {pool: gpu}\n  tool: {kind: shell, argv: ["true"]}\n'
)  # fmt: skip


def test_add_the_workers_of_a_pool(tmp_path: Path) -> None:
    with open_cluster(tmp_path, ClusterSize(workers=1)) as cluster:
        (tmp_path / "train.yaml").write_text(GPU, "utf-8")
        started = cluster.call("run", "train.yaml", "--detach")
        assert started.returncode == 0, started
        with chromium() as browser:
            screen = Screen(browser, cluster.url())
            page = screen.open("executions")
            page.get_by_role("textbox", name="Token").fill(cluster.token)
            page.get_by_role("button", name="Sign in").click()
            with clicks(page, 3):
                page.get_by_role("link", name="demo/train").click()
                notice = page.get_by_role("status").filter(has_text='start waits for a worker: the pool "gpu" has none')
                notice.get_by_role("link", name="Workers and pools").click()
                pool = page.get_by_role("list", name="Pools").get_by_role("listitem").filter(has_text="gpu")
                expect(pool).to_contain_text("1 waiting")
                command = "noetl worker --nats nats://host:4222 --pool gpu"
                page.get_by_role("button", name=f"Copy: {command}").click()
            cluster.add_worker(pool="gpu")
            expect(pool).to_contain_text("1 worker")
            expect(pool).to_contain_text("nothing waits")
            screen.close()
