"""`secrets`: asks whether a credential of the keychain resolves, never for its value."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import Output, failed
from noetl.playbook.kinds import Fixed
from noetl.tool import Call, Tool


class SecretsInput(Struct, kw_only=True):
    """Which credential."""

    name: Annotated[
        Fixed,
        Meta(description="a keychain entry; stands under `input`, since `name` beside `kind` is the task's"),
    ]


class SecretsTool(Tool):
    """Says whether a keychain entry resolves, and its version; never gives its value.

    Its data is `{name, resolves: true, version}`; one that does not resolve is an error of kind `credential`.
    """

    kind = "secrets"
    Input = SecretsInput
    defaults = {"timeout": 30}
    example = """\
kind: secrets
input: {name: api_token}
"""

    async def run(self, input: SecretsInput, call: Call) -> Output:
        # Whoever makes the call has fetched the entry: what is not there has failed before it came here.
        if call.auth is None:
            return failed("credential", f'keychain entry "{input.name}": this worker has no keychain')
        version = call.auth.version
        return Output(data={"name": input.name, "resolves": True, "version": version})
