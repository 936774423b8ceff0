"""`secrets`: checks whether a credential of the keychain resolves, without reading its value."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.output import Output, failed
from noetl.playbook.kinds import Fixed
from noetl.tool import Call, Tool


class SecretsInput(Struct, kw_only=True):
    """The credential to check."""

    name: Annotated[
        Fixed,
        Meta(
            description="name of a keychain entry; write it under `input`, because `name` beside `kind` "
            "is the name of the task"
        ),
    ]


class SecretsTool(Tool):
    """Checks whether a keychain entry resolves. Its value is never part of the output.

    `output.data` is `{name, resolves: true, version}`. If the entry does not resolve, the task fails with an
    error of kind `credential`.
    """

    kind = "secrets"
    failures = ()
    ignores = ("timeout.connect", "timeout.read")
    Input = SecretsInput
    defaults = {"timeout": 30}
    example = """\
kind: secrets
input: {name: api_token}
"""

    async def run(self, input: SecretsInput, call: Call) -> Output:
        # The worker has fetched the entry before this call. If that had failed, the call would not be made.
        if call.auth is None:
            return failed("credential", f'keychain entry "{input.name}": this worker has no keychain')
        version = call.auth.version
        return Output(data={"name": input.name, "resolves": True, "version": version})
