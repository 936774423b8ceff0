"""Objects in S3 through whole processes: written, listed, referenced and fetched, with keys of the keychain or a role."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.e2e.processes import Workspace
from tests.playbooks import HEAD
from tests.services_objects import make_bucket, moto_server

PLAYBOOK = (
    HEAD
    + """\
keychain:
- {name: lake, kind: aws_credential}
workload: {rows: 10}
workflow:
- step: start
  tool:
  - name: make
    kind: python
    input: {rows: "{{ workload.rows }}"}
    code: "def main(rows): return [{'n': n} for n in range(rows)]"
  - {name: write, kind: object, auth: lake, put: "s3://shop/out/{{ execution_id }}.json", from_ref: "{{ make.ref }}"}
  set: {ctx.rows_ref: "{{ output.ref }}"}
  next: {arcs: [{step: read}]}
- step: read
  tool:
  - {name: all, kind: object, auth: lake, list: "s3://shop/out"}
  - {name: part, kind: resolve, ref: "{{ ctx.rows_ref }}", slice: "2:4"}
  - {name: seen, kind: object, auth: lake, get: "{{ all.data[0].url }}", as: ref}
  - {name: whole, kind: resolve, ref: "{{ seen.ref }}"}
  - {name: gone, kind: object, auth: lake, delete: "{{ all.data[0].url }}"}
  - name: end
    kind: noop
    input: {found: "{{ all.data | length }}", part: "{{ part.data }}", rows: "{{ whole.data | length }}"}
"""
)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with moto_server(tmp_path_factory.mktemp("moto")) as address:
        make_bucket(address, "shop")
        yield address


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        made.environment.pop(name, None)
    return made


@pytest.mark.parametrize("rows", [10, 300_000])
def test_rows_become_an_object_and_come_back_d110(workspace: Workspace, endpoint: str, rows: int) -> None:
    keys = {"access_key_id": "key-of-the-lake", "secret_access_key": "canary-of-the-lake", "endpoint": endpoint}
    keys["region"] = "us-east-1"
    assert workspace.call("secrets", "set", "lake", input=json.dumps(keys)).returncode == 0
    code, document = workspace.json("run", workspace.write(PLAYBOOK), "--set", f"rows={rows}")
    assert code == 0, document
    assert document["output"]["data"] == {"found": 1, "part": [{"n": 2}, {"n": 3}], "rows": rows}
    said = json.dumps(document) + workspace.call("events", "last", "--format", "jsonl").stdout
    assert '"auth_reference":"keychain/lake"' in said
    assert "canary-of-the-lake" not in said
    for command in (("audit", "last"), ("gc",), ("output", "last"), ("show", "last")):
        done = workspace.call(*command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


class Role(BaseHTTPRequestHandler):
    """The credentials of a container, as ECS and EKS serve them."""

    def do_GET(self) -> None:
        body = {"AccessKeyId": "ROLE", "SecretAccessKey": "s", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"}
        self.server.asked.append(self.path)  # type: ignore[attr-defined]  # of the server below
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_arguments: object) -> None:
        """Nothing is printed."""


def test_without_a_credential_the_role_of_the_machine_is_used(workspace: Workspace, endpoint: str) -> None:
    text = HEAD + "workflow:\n- step: start\n  tool: {kind: object, put: 's3://shop/by-role.txt', text: x}\n"
    server = HTTPServer(("127.0.0.1", 0), Role)
    server.asked = []  # type: ignore[attr-defined]  # as above
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    (workspace.folder / "token").write_text("pod")
    workspace.environment |= {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{server.server_port}/role",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(workspace.folder / "token"),
    }
    try:
        code, document = workspace.json("run", workspace.write(text))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (code, document["output"]["data"]) == (0, {"url": "s3://shop/by-role.txt", "bytes": 1}), document
    assert server.asked == ["/role"]  # type: ignore[attr-defined]  # as above


def test_wrong_addresses_and_credentials_are_told(workspace: Workspace) -> None:
    assert workspace.call("secrets", "set", "lake", input='{"access_key_id": "a"}').returncode == 0
    code, document = workspace.json("run", workspace.write(PLAYBOOK))
    message = 'keychain entry "lake": the stored secret "lake": it has no field "secret_access_key"'
    assert (code, document["error"]["message"]) == (1, message)
    text = HEAD + "workflow:\n- step: start\n  tool: {kind: object, get: 'ftp://x/y'}\n"
    code, document = workspace.json("run", workspace.write(text))
    assert (code, document["error"]["kind"]) == (1, "input")
