"""`secrets` reports that an entry resolves, and never its value."""

from __future__ import annotations

import asyncio

from noetl.clock import SystemClock
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import Secret
from noetl.tools.secrets import SecretsInput, SecretsTool
from noetl.worker.keychain import Keychain
from tests.unit.tools.calls import call


class One:
    async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:  # noqa: ARG002
        return FetchedCredential({"": Secret("hunter22")}, "v7")


def test_an_entry_that_resolves_returns_its_version() -> None:
    async def work() -> None:
        auth = await Keychain(One(), SystemClock()).auth(Credential(name="api", kind="env", at=()))
        output = await SecretsTool().run(SecretsInput(name="api"), call()._replace(auth=auth))
        assert output.data == {"name": "api", "resolves": True, "version": "v7"}
        assert "hunter22" not in repr((output, auth))

    asyncio.run(work())


def test_without_a_keychain_the_error_names_the_entry() -> None:
    output = asyncio.run(SecretsTool().run(SecretsInput(name="api"), call()))
    assert output.error is not None
    assert (output.error.kind, '"api"' in output.error.message) == ("credential", True)
