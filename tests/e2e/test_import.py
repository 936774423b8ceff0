"""`noetl import openapi` from a server, and the blocks against a server that is made from the same document."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import noetl as noetl_api
from tests.api.servers import HELLO, opened
from tests.unit.cli.invoke import noetl
from tests.unit.importers.shop_api import PAGE, RESOURCES, TOTAL, document, item, served

VARIABLES = {
    "SHOP_API_TOKEN": "secret-token",
    "SHOP_API_BASIC_USER": "ann",
    "SHOP_API_BASIC_PASSWORD": "secret-word",
    "SHOP_API_KEY": "secret-key",
}


def run(folder: Path, capsys: pytest.CaptureFixture[str], api: str, start: str, *sets: str) -> Any:
    """Import the document from the server with another first step, and run it; the output."""
    options = ["--set", f"base_url={api}", *(part for each in sets for part in ("--set", each))]
    code = noetl("import", "openapi", f"{api}/openapi.json", "-o", str(folder), "--start", start)
    assert code == 0, capsys.readouterr().err
    capsys.readouterr()
    code = noetl("run", f"{folder}/shop_api.yaml", "--db", str(folder / "x.db"), "--format", "json", *options)
    return code, json.loads(capsys.readouterr().out)


def test_operations_run_against_a_server_made_from_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with served(document()) as api:
        code, said = run(tmp_path, capsys, api.url, "list_orders", "page=2", "page_size=5")
        assert (code, said["output"]["data"]["data"]) == (0, [item(number) for number in range(PAGE, 2 * PAGE)])
        code, said = run(tmp_path, capsys, api.url, "create_orders", 'body={"name": "tea", "price": 3.5}')
        assert (code, said["output"]["data"]) == (0, item(7))
        code, said = run(tmp_path, capsys, api.url, "delete_orders", "order_id=a/b c")
        assert code == 0
        assert api.requests[-1] == "DELETE /orders/a%2Fb%20c"
        code, said = run(tmp_path, capsys, api.url, "replace_orders", 'body={"name": "x"}', "order_id=1")
        assert code == 0
        sets = ("q=a b", 'tag=["x", "y"]', "ids=[1, 2]", 'filter={"min": 3}', "session=s;1", "x_trace=t")
        code, said = run(tmp_path, capsys, api.url, "get_search", *sets)
        assert code == 0
        assert api.requests[-1] == "GET /search?q=a+b&tag=x&tag=y&ids=1,2&filter%5Bmin%5D=3&api_key=secret-key"
        code, said = run(tmp_path, capsys, api.url, "create_orders", 'body={"price": -1}')
        assert (code, said["error"]["kind"]) == (1, "validation")


def test_all_pages_are_read_whatever_the_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with served(document()) as api:
        assert noetl("import", "openapi", f"{api.url}/openapi.json", "-o", str(tmp_path)) == 0
        text = (tmp_path / "shop_api.yaml").read_text()
        calls = "\n".join(
            f"      - {{ name: {name}, kind: workbook, block: list_{name}_all }}" for name in RESOURCES[:5]
        )
        read = ", ".join(f"{name}: '{{{{ {name}.data }}}}'" for name in RESOURCES[:5])
        calls += f"\n      - {{ name: read, kind: noop, input: {{ {read} }} }}"
        head, _, blocks = text.partition("workflow:")
        text = f"{head}workflow:\n  - step: start\n    tool:\n{calls}\n\nworkbook:{blocks.partition('workbook:')[2]}"
        (tmp_path / "all.yaml").write_text(text)
        options = ("--set", f"base_url={api.url}", "--format", "json", "--db", str(tmp_path / "x.db"))
        capsys.readouterr()
        assert noetl("run", f"{tmp_path}/all.yaml", *options) == 0
        lists = json.loads(capsys.readouterr().out)["output"]["data"]
        pages = dict.fromkeys(RESOURCES[:5], 3) | {"customers": 4}  # an offset ends with an empty page
        assert {name: [each["id"] for each in found["items"]] for name, found in lists.items()} == {
            name: list(range(TOTAL)) for name in RESOURCES[:5]
        }
        assert {name: found["pages"] for name, found in lists.items()} == pages
        text = text.replace("max_pages: 50", "max_pages: 2")
        (tmp_path / "all.yaml").write_text(text)
        assert noetl("run", f"{tmp_path}/all.yaml", *options) == 1
        assert "there are more than 2 pages" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_the_document_of_our_own_server_is_imported_and_runs_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with opened(tmp_path) as server:
            server.api.token = await server.token("admin")
            await server.api.register(HELLO)
            (tmp_path / "api.json").write_bytes((await server.api.ask("GET", "/schema/openapi.json")).body)
            monkeypatch.setenv("NOETL_SECRET_API_TOKEN", server.api.token)
            for start, sets, expected in (
                ("GET /playbooks", {}, "items"),
                ("GET /executions", {"limit": 5}, "items"),
                ("POST /playbooks/check", {"body": {"text": HELLO}}, "problems"),
            ):
                arguments = (
                    "import",
                    "openapi",
                    f"{tmp_path}/api.json",
                    "-o",
                    f"{tmp_path}/api",
                    "--name",
                    "noetl_api",
                )
                assert await asyncio.to_thread(noetl, *arguments, "--start", start) == 0
                assert int(capsys.readouterr().out.split(": ")[1].split(" operations")[0]) >= 50
                workload = {"base_url": server.server.url, **sets}
                file = f"{tmp_path}/api/noetl_api.yaml"
                result = await asyncio.to_thread(noetl_api.run, file, workload=workload, database=tmp_path / "x.db")
                assert expected in result.raise_for_status().output

    asyncio.run(work())
