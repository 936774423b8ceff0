"""`secrets`: asks whether a credential of the keychain resolves, never for its value."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from noetl.playbook.kinds import Fixed
from noetl.tool import Tool


class SecretsInput(Struct, kw_only=True):
    """Which credential."""

    name: Annotated[
        Fixed,
        Meta(description="a keychain entry; stands under `input`, since `name` beside `kind` is the task's"),
    ]


class Secrets(Tool):
    """Says whether a keychain entry resolves; never gives its value."""

    kind = "secrets"
    Input = SecretsInput
    defaults = {"timeout": 30}
