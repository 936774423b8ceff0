"""`transfer` and `resolve` connect to databases and object stores at allowed addresses only."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import convert

from noetl.output import JSON, Output
from noetl.secret import Secret
from noetl.tool import Auth
from noetl.tools.resolve import ResolveInput, ResolveTool
from noetl.tools.transfer.tool import TransferInput, TransferTool
from tests.unit.tools.calls import call

HERE = "http://127.0.0.1:1"
CREDENTIALS = {
    "db": ("postgres_credential", {"dsn": "postgresql://ann:pw@127.0.0.1:1/db"}),
    "lake": ("aws_credential", {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}),
}
ROWS: dict[str, JSON] = {"kind": "postgres", "auth": "db", "table": "t"}
OBJECT: dict[str, JSON] = {"kind": "object", "auth": "lake", "url": "s3://shop/x.csv", "endpoint": HERE}
FILE: dict[str, JSON] = {"kind": "object", "url": "x.csv"}


async def credential(name: str) -> Auth:
    async def renew() -> Auth:
        return auth

    kind, values = CREDENTIALS[name]
    auth = Auth(name, kind, {key: Secret(value) for key, value in values.items()}, renew, "1")
    return auth


def message(output: Output) -> str:
    assert output.error is not None
    return output.error.message


@pytest.mark.parametrize("system", [ROWS, OBJECT])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_transfer_reaches_allowed_addresses_only(
    tmp_path_factory: pytest.TempPathFactory, side: str, system: JSON
) -> None:
    folder = tmp_path_factory.mktemp("files")
    (folder / "x.csv").write_text("n\n1\n")
    sides = {"source": FILE, "target": FILE | {"url": "y.csv"}, side: system}

    async def transfer(*allow: str) -> str:
        tool = TransferTool(allow_private=False, allow=allow)
        try:
            made = call(folder=str(folder), spec={"timeout": {"total": 5}})._replace(credential=credential)
            return message(await tool.run(convert(sides, TransferInput), made))
        finally:
            await tool.close()

    async def work() -> None:
        assert "is not allowed: 127.0.0.1 is a loopback address" in await transfer()
        assert "is not allowed" not in await transfer("127.0.0.0/8")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "locator"),
    [
        ("db", {"system": "postgres", "table": "t", "query": "SELECT 1"}),
        ("lake", {"system": "s3", "url": "s3://shop/x.csv", "endpoint": HERE}),
    ],
)
def test_a_ref_is_resolved_at_allowed_addresses_only(name: str, locator: JSON) -> None:
    async def work() -> None:
        tool = ResolveTool(allow_private=False)
        ref: JSON = {"type": "relational", "locator": locator, "auth_reference": f"keychain/{name}"}
        made = call()._replace(credential=credential, refs=(ref,))
        assert "is not allowed: 127.0.0.1 is a loopback address" in message(await tool.run(ResolveInput(ref=ref), made))
        await tool.close()

    asyncio.run(work())
