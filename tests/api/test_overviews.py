"""What the catalog shows of playbooks: what they declare, the last execution, the next firing, uses of credentials."""

from __future__ import annotations

from pathlib import Path

from tests.api.servers import ApiServer, serve

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sync, path: shop/sync, description: Copies the orders, labels: {team: data}}
keychain:
- {name: warehouse, kind: stored}
triggers:
- {name: hourly, kind: interval, every_s: 3600}
workflow:
- step: start
  tool: {kind: noop}
"""


def test_overviews_show_what_playbooks_declare_and_what_happened(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(TEXT)
        plain = TEXT.replace("shop/sync", "shop/plain").replace("warehouse", "mail").partition("triggers:")
        await server.api.register(plain[0] + "workflow:" + plain[2].partition("workflow:")[2])
        answer = await server.api.ask("GET", "/playbooks/overviews?path=shop/sync&path=shop/plain&path=none")
        sync, other = answer.json["items"]
        assert (sync["description"], sync["labels"], sync["credentials"], sync["last"]) == (
            "Copies the orders", {"team": "data"}, ["warehouse"], None
        )  # fmt: skip
        assert sync["next_at"] is not None
        assert other["next_at"] is None
        await server.api.ask("PUT", "/credentials/warehouse", {"value": "quiet"})
        id = (await server.api.post("/executions", {"path": "shop/sync"}, wait=30))["execution_id"]
        answer = await server.api.ask("GET", "/playbooks/overviews?path=shop/sync")
        assert (answer.json["items"][0]["last"]["execution_id"], answer.json["items"][0]["last"]["status"]) == (
            id,
            "ok",
        )
        uses = await server.api.get("/playbooks/uses", credential="warehouse")
        assert uses == {"items": [{"path": "shop/sync", "version": 1}], "complete": True}
        assert (await server.api.get("/playbooks/uses", credential="other"))["items"] == []
        many = "&".join(f"path={number}" for number in range(101))
        assert (await server.api.ask("GET", f"/playbooks/overviews?{many}")).status == 400

    serve(tmp_path, work)
