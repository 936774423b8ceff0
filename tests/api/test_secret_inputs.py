"""Secret inputs over HTTP: given under `secrets`, stored encrypted, in no answer, and needed again by a fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.errors import InputError
from noetl.session.protocol import ForkSpec
from noetl.session.remote import RemoteSession
from tests.api.servers import ApiServer, serve
from tests.playbooks import HEAD

VALUE = "canary-0123456789"
LOGIN = HEAD + (
    "executor: {spec: {methods: [POST]}}\n"
    "input: {user: {type: string}, pw: {type: string, secret: true, min: 6}, fail: {type: boolean, default: false}}\n"
    "workflow:\n- step: start\n  tool:\n"
    '    kind: python\n    env: {PW: "{{ keychain.pw }}"}\n    input: {user: "{{ workload.user }}", fail: "{{ workload.fail }}"}\n'
    "    code: |\n      import os\n      def main(user, fail):\n        assert not fail, os.environ['PW']\n"
    "        return {'user': user, 'pw': os.environ['PW'], 'size': len(os.environ['PW'])}\n"
)


async def kept(server: ApiServer, id: str) -> set[str]:
    return set(await server.services.secrets.inputs(id))


def test_a_secret_input_reaches_the_task_and_no_answer(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LOGIN)
        body = {"path": "t", "workload": {"user": "me"}, "secrets": {"pw": VALUE}}
        shown = await server.api.post("/executions", body, wait=120)
        assert shown["output"]["data"] == {"user": "me", "pw": "***", "size": len(VALUE)}
        id = shown["execution_id"]
        assert await kept(server, id) == set(), "it has ended ok"
        for route in ("", "/events", "/state", "/logs", "/timeline"):
            answer = await server.api.ask("GET", f"/executions/{id}{route}")
            assert answer.status == 200
            assert VALUE.encode() not in answer.body
        assert VALUE.encode() not in (await server.api.ask("GET", "/audit")).body
        assert VALUE.encode() not in b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())

    serve(tmp_path, work)


def test_all_values_that_do_not_fit_are_named_at_once(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LOGIN)
        body = {"path": "t", "workload": {"pw": VALUE}, "secrets": {"user": "me", "pww": VALUE}}
        answer = await server.api.ask("POST", "/executions", body)
        assert (answer.status, answer.json["code"]) == (422, "bad-input")
        assert [each["name"] for each in answer.json["fields"]] == [
            "workload.user", "workload.pw", "secrets.user", "secrets.pww"
        ]  # fmt: skip
        assert VALUE.encode() not in answer.body
        for secrets, reason in (({}, "missing: it is required"), ({"pw": "short"}, "expected at least 6 characters")):
            answer = await server.api.ask(
                "POST", "/executions", {"path": "t", "workload": {"user": "a"}, "secrets": secrets}
            )
            assert answer.status == 422
            assert [each["name"] for each in answer.json["fields"]] == ["secrets.pw"]
            assert reason in answer.json["fields"][0]["message"]
        assert (await server.api.get("/executions"))["items"] == []

    serve(tmp_path, work)


def test_a_failed_execution_keeps_its_secrets_for_retries_and_forks(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LOGIN)
        body = {"path": "t", "workload": {"user": "me", "fail": True}, "secrets": {"pw": VALUE}}
        id = (await server.api.post("/executions", body, wait=120))["execution_id"]
        assert await kept(server, id) == {"pw"}
        shown = await server.api.get(f"/executions/{id}")
        assert shown["error"]["message"].endswith("***")
        async with RemoteSession(server.api.url) as session:
            fork = await session.fork(id, ForkSpec(workload={"fail": False}))
            assert (await fork.result()).output == {"user": "me", "pw": "***", "size": len(VALUE)}
            with pytest.raises(InputError, match=r"secrets\.pw: missing"):
                await session.fork(fork.id, ForkSpec(from_step="start"))
            again = await session.fork(fork.id, ForkSpec(from_step="start", secrets={"pw": "another value"}))
            assert (await again.result()).output["size"] == 13
            await server.api.register(LOGIN.replace("path: t", "path: other"))
            with pytest.raises(InputError, match=r"secrets\.pw: missing"):
                await session.fork(id, ForkSpec("other", workload={"fail": False}))
            assert await kept(server, id) == {"pw"}
            await session.delete(again.id)
            await session.delete(fork.id)
            await session.delete(id)
        assert await kept(server, id) == set()

    serve(tmp_path, work)


def test_the_body_of_run_contains_secret_inputs_and_a_key_keeps_the_first_value(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LOGIN)
        for value in (VALUE, "another value"):
            answer = await server.api.ask(
                "POST", "/run/t", {"user": "me", "pw": value}, headers={"Idempotency-Key": "k"}
            )
            assert (answer.status, answer.json["size"]) == (200, len(VALUE))
        rows = await server.services.store.read(answer.headers["noetl-execution-id"])
        assert rows[0].facts[0].workload == {"user": "me"}  # type: ignore[union-attr]  # Requested
        schema = (await server.api.get("/schema/openapi.json"))["paths"]["/run/t"]["post"]["requestBody"]
        pw = schema["content"]["application/json"]["schema"]["properties"]["pw"]
        assert pw == {"type": "string", "minLength": 6, "format": "password", "writeOnly": True}

    serve(tmp_path, work)


def test_no_other_playbook_reads_the_secret_inputs_of_an_execution(tmp_path: Path) -> None:
    async def work(server: ApiServer) -> None:
        await server.api.register(LOGIN)
        body = {"path": "t", "workload": {"user": "me", "fail": True}, "secrets": {"pw": VALUE}}
        id = (await server.api.post("/executions", body, wait=120))["execution_id"]
        other = HEAD.replace("path: t", "path: other")
        for entry in (
            f"{{name: pw, kind: input, execution: {id}, required: true}}",
            f"{{name: pw, kind: stored, key: {id}}}",
        ):
            text = (
                other
                + f'keychain: [{entry}]\nworkflow: [{{step: start, tool: {{kind: noop, input: {{a: "{{{{ keychain.pw }}}}"}}}}}}]\n'
            )
            answer = await server.api.ask("POST", "/executions", {"text": text}, params={"wait": 60})
            assert answer.status == 422 or answer.json["status"] == "error", answer.json
            assert VALUE.encode() not in answer.body

    serve(tmp_path, work)
