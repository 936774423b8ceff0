"""A playbook with `nats` tasks, run by the command on a real NATS server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
from nats.js.api import KeyValueConfig, StreamConfig

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD
from tests.services_nats import running_nats

PLAYBOOK = (
    HEAD
    + """\
keychain:
- {name: broker, kind: nats_credential, url: {env: BROKER_URL}, user: app, password: {env: BROKER_PASSWORD}}
workflow:
- step: start
  tool:
  - {name: make, kind: python, code: "def main(): return {'text': 'x' * 200_000}"}
  - {name: store, kind: nats, auth: broker, kv: put, bucket: pages, key: one, json: "{{ make.data }}"}
  - name: announce
    kind: nats
    auth: broker
    publish: pages.stored
    ack: true
    json: {revision: "{{ store.nats.revision }}"}
    set: {ctx.sequence: "{{ output.nats.sequence }}"}
  - name: missing
    kind: nats
    auth: broker
    kv: get
    bucket: pages
    key: two
    spec:
      policy:
        on_unmatched: fail
        rules: [{when: "{{ output.nats.code == 'not-found' }}", then: {do: continue}}]
  - {name: load, kind: nats, auth: broker, kv: get, bucket: pages, key: one}
  set: {ctx.page: "{{ output.data }}"}
  next: {arcs: [{step: end}]}
- step: end
  tool:
    kind: python
    input: {page: "{{ ctx.page }}", n: "{{ ctx.sequence }}"}
    code: "def main(page, n): return [len(page['text']), n]"
"""
)


def test_keys_and_messages_of_a_playbook(tmp_path: Path) -> None:
    async def prepare(url: str) -> None:
        plain = await nats.connect(url, user="app", password="hunter22-of-tests")
        await plain.jetstream().create_key_value(KeyValueConfig(bucket="pages"))
        await plain.jetstream().add_stream(StreamConfig(name="PAGES", subjects=["pages.*"]))
        await plain.close()

    (tmp_path / "nats").mkdir()
    workspace = Workspace(tmp_path)
    file = workspace.write(PLAYBOOK)
    with running_nats(
        tmp_path / "nats", "authorization { timeout: 60, user: app, password: hunter22-of-tests }"
    ) as server:
        asyncio.run(prepare(server.url))
        workspace.environment |= {"BROKER_URL": server.url, "BROKER_PASSWORD": "hunter22-of-tests"}
        done = workspace.call("run", file, "--format", "json")
        document = json.loads(done.stdout)
        assert (done.returncode, document["status"], document["error"]) == (0, "ok", None)
        assert document["output"]["data"] == [200_000, 1]
        workspace.environment |= {"BROKER_PASSWORD": "another-password"}
        refused = workspace.call("run", file, "--format", "json")
        assert json.loads(refused.stdout)["error"]["message"].endswith("NATS refuses the login of the credential")
        events = workspace.call("events", document["execution_id"], "--format", "json").stdout
        assert "hunter22-of-tests" not in events
