"""Triggers over the API: registered with a playbook, listed, paused and fired; webhooks start executions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.playbook.model import Verify
from noetl.server.routes.hooks import HOOK_BODY_MAX, is_genuine
from noetl.server.services import ServerSettings
from tests.api.servers import Answer, Api, ApiServer, serve
from tests.playbooks import HEAD

SECRET = "whsec-4711-of-the-shop"
WORKFLOW = "workflow:\n- step: start\n  tool: {kind: noop, input: {order: '{{ workload.order }}'}}\n"
HOOK = f"""\
keychain:
- {{name: shop_key, kind: bearer, token: "{SECRET}"}}
workload: {{order: null}}
triggers:
- {{name: poll, kind: interval, every_s: 3600}}
- name: order
  kind: webhook
  path: orders/new
  verify: {{hmac: {{secret: shop_key}}}}
  key: "{{{{ request.headers['x-delivery'] }}}}"
  workload: {{order: "{{{{ request.body }}}}"}}
"""
SHOP = HEAD.replace("path: t", "path: shop/orders") + HOOK + WORKFLOW


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def deliver(api: Api, order: Any, key: str, *, signed: str | None = None) -> Answer:
    body = msgspec.json.encode(order)
    headers = {"X-Signature": signature(body) if signed is None else signed, "X-Delivery": key}
    return await api.ask("POST", "/hooks/orders/new", body, headers=headers)


def test_a_webhook_starts_one_execution_for_each_key(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(SHOP)
        first = await deliver(api, {"id": 7}, "d1")
        assert (first.status, list(first.json)) == (202, ["execution_id"])
        id = first.json["execution_id"]
        assert first.headers["location"] == f"/executions/{id}"
        again = await deliver(api, {"id": 7}, "d1")
        assert (again.status, again.json) == (200, {"execution_id": id, "duplicate": True})
        for key in ("d2", "d3", "", ""):  # with an empty key, each request is a delivery of its own
            assert (await deliver(api, {"id": 8}, key)).status == 202
        await server.runtime.wait_until_idle(id)
        assert (await api.get(f"/executions/{id}/output")) == {"order": {"id": 7}}
        history = (await api.get("/triggers/one", path="shop/orders", name="order"))["history"]
        assert [each["status"] for each in history] == ["started"] * 4 + ["duplicate", "started"]
        assert [each.get("execution_id") for each in history[4:]] == [id, id]
        assert len((await api.get("/executions"))["items"]) == 5
        body = b"{}"
        keyless = await api.ask("POST", "/hooks/orders/new", body, headers={"X-Signature": signature(body)})
        assert (keyless.status, keyless.json["code"]) == (422, "no-key")

    serve(tmp_path, work)


def test_a_delivery_cannot_name_a_result_of_an_execution_d99(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(SHOP)
        ref = {"type": "relational", "locator": {"execution_id": "another", "run": "start#1"}}
        for order in ({"rows_ref": ref}, {"pages": [{"next_ref": ref}]}):
            answer = await deliver(server.api, order, f"d{len(order)}-{len(str(order))}")
            assert (answer.status, answer.json["code"]) == (422, "not-started")
            assert answer.json["detail"] == "the data of the trigger names a result of execution another"
        assert (await server.api.get("/executions"))["items"] == []
        assert (await deliver(server.api, {"rows": ref}, "data")).status == 202, "under another name it is data"

    serve(tmp_path, work)


def test_deliveries_of_one_key_at_the_same_time_start_one_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(SHOP)
        answers = await asyncio.gather(*(deliver(server.api, {"id": 7}, "d1") for _ in range(10)))
        assert sorted(each.status for each in answers) == [200] * 9 + [202]
        assert len({each.json["execution_id"] for each in answers}) == 1
        assert len((await server.api.get("/executions"))["items"]) == 1

    serve(tmp_path, work)


def test_a_wrong_signature_is_refused_and_is_in_the_history(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(SHOP)
        body = b'{"id":7}'
        for signed in ("", "wrong", signature(body, "other"), signature(b"{}"), signature(body)[:-1], "ü"):
            answer = await deliver(api, {"id": 7}, "d1", signed=signed)
            assert (answer.status, answer.json["code"]) == (401, "bad-signature")
        assert (await api.ask("POST", "/hooks/orders/new", {})).status == 401
        history = (await api.get("/triggers/one", path="shop/orders", name="order"))["history"]
        assert {(each["status"], each["execution_id"]) for each in history} == {("refused", None)}
        assert (await api.get("/executions"))["items"] == []
        assert SECRET not in str(history)

    serve(tmp_path, work)


def test_unknown_paths_and_large_bodies_are_refused(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(SHOP)
        for method, path in (("POST", "orders/old"), ("PUT", "orders/new"), ("GET", "orders"), ("POST", "%2e%2e/x")):
            assert (await api.ask(method, f"/hooks/{path}")).status == 404
        assert (await deliver(api, "x" * HOOK_BODY_MAX, "d1")).status == 413
        broken = await api.ask(
            "POST", "/hooks/orders/new", b"{", headers={"X-Signature": signature(b"{"), "X-Delivery": "d"}
        )
        assert (broken.status, broken.json["code"]) == (400, "bad-body")
        assert (await api.get("/executions"))["items"] == []

    serve(tmp_path, work)


def test_bodies_are_json_forms_or_text(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(SHOP)
        sent = {
            "application/json": (b"[1, 2]", [1, 2]),
            "application/vnd.shop+json; charset=utf-8": (b'{"a": null}', {"a": None}),
            "application/x-www-form-urlencoded": (b"a=1&b=x+y&c=", {"a": "1", "b": "x y", "c": ""}),
            "text/plain": ("ü".encode(), "ü"),
        }
        for kind, (body, value) in sent.items():
            headers = {"X-Signature": f"sha256={signature(body)}", "Content-Type": kind, "X-Delivery": kind}
            answer = await server.api.ask("POST", "/hooks/orders/new", body, headers=headers)
            assert answer.status == 202, answer.body
            await server.runtime.wait_until_idle(answer.json["execution_id"])
            output = await server.api.get(f"/executions/{answer.json['execution_id']}/output")
            assert output == {"order": value}

    serve(tmp_path, work)


def test_headers_that_prove_the_sender_are_not_readable(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        text = SHOP.replace("{{ request.body }}", "{{ request.headers }}").replace(
            "hmac: {secret: shop_key}", "token: shop_key"
        )
        await server.api.register(text)
        headers = {"Authorization": f"Bearer {SECRET}", "Cookie": "session=1", "X-Other": "seen", "X-Delivery": "d"}
        answer = await server.api.ask("POST", "/hooks/orders/new", {}, headers=headers)
        assert answer.status == 202
        await server.runtime.wait_until_idle(answer.json["execution_id"])
        log = (await server.api.ask("GET", f"/executions/{answer.json['execution_id']}/log")).body.decode()
        assert "seen" in log
        assert SECRET not in log
        assert "session=1" not in log

    serve(tmp_path, work)


def test_a_webhook_without_verify_needs_a_token_with_the_scope_run(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        api.token = await server.token("admin")
        text = HEAD.replace("path: t", "path: in/open") + (
            "triggers:\n- {name: open, kind: webhook, path: open, method: PUT}\n"
            + WORKFLOW.replace("workload.order", "execution_id")
        )
        await api.register(text)
        statuses = {}
        for name, scopes in (("reader", ["read"]), ("runner", ["run"])):
            token = (await api.post("/tokens", {"name": name, "scopes": scopes}, status=201))["token"]
            statuses[name] = (await api.ask("PUT", "/hooks/open", token=token)).status
        role = [{"role": "operator", "paths": ["out/*"]}]
        token = (await api.post("/tokens", {"name": "other", "roles": role}, status=201))["token"]
        statuses["other"] = (await api.ask("PUT", "/hooks/open", token=token)).status
        statuses["nobody"] = (await api.ask("PUT", "/hooks/open", token="")).status
        assert statuses == {"reader": 403, "runner": 202, "other": 404, "nobody": 401}

    serve(tmp_path, work, ServerSettings())


def test_triggers_are_listed_paused_resumed_and_fired(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(SHOP)
        poll: dict[str, Any] = {"path": "shop/orders", "name": "poll"}
        listed = (await api.get("/triggers"))["items"]
        assert [(each["name"], each["schedule"]) for each in listed] == [
            ("order", "POST /hooks/orders/new"), ("poll", "every 3600 s"),
        ]  # fmt: skip
        assert (await api.get("/triggers", path="other"))["items"] == []
        assert (await api.ask("POST", "/triggers/pause", **poll)).json["paused"]
        assert (await api.get("/triggers/one", **poll))["next_times"] == []
        assert not (await api.ask("POST", "/triggers/resume", **poll)).json["paused"]
        assert len((await api.get("/triggers/one", times=7, **poll))["next_times"]) == 7
        fired = (await api.ask("POST", "/triggers/fire", **poll)).json
        assert fired["status"] == "started"
        assert (await api.get(f"/executions/{fired['execution_id']}"))["status"] in ("ok", "running")
        await api.ask("POST", "/triggers/pause", path="shop/orders", name="order")
        assert (await deliver(api, {}, "d1")).status == 409
        missing = await api.ask("GET", "/triggers/one", path="shop/orders", name="nothing")
        assert missing.status == 404

    serve(tmp_path, work)


def test_a_new_text_replaces_the_triggers_and_a_hook_has_one_owner(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        api = server.api
        await api.register(SHOP)
        taken = SHOP.replace("shop/orders", "shop/other")
        answer = await api.ask("POST", "/playbooks", taken.encode(), headers={"Content-Type": "text/yaml"})
        assert (answer.status, answer.json["code"]) == (409, "hook-taken")
        await api.register(
            HEAD.replace("path: t", "path: shop/orders") + WORKFLOW.replace("workload.order", "execution_id")
        )
        assert (await api.get("/triggers"))["items"] == []
        assert (await deliver(api, {}, "d1")).status == 404
        await api.register(taken)
        assert (await deliver(api, {}, "d1")).status == 202

    serve(tmp_path, work)


@pytest.mark.parametrize("encoding", ["hex", "base64"])
@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "sha1"])
def test_signatures_are_compared_by_their_encoding(algorithm: Any, encoding: Any) -> None:
    verify = Verify(secret="s", header="X-Signature", signed=True, algorithm=algorithm, encoding=encoding)
    digest = hmac.new(b"key", b"body", algorithm).digest()
    right = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
    assert is_genuine(verify, b"key", right, b"body")
    assert is_genuine(verify, b"key", f"{algorithm}={right}", b"body")
    for header, body, secret in (
        (right, b"other", b"key"),
        (right, b"body", b"no"),
        (None, b"body", b"key"),
        (right, b"", b""),
    ):
        assert not is_genuine(verify, secret, header, body)
