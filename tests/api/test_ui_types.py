"""The UI's types are those of the API: ui/src/api/schema.ts is generated, and this says when it is stale."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.api.houses import World, serve

UI = Path(__file__).parents[2] / "ui"


def test_the_types_of_the_ui_are_those_that_the_server_describes(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (UI / "node_modules" / "openapi-typescript").exists():
        pytest.skip("needs node and the packages of ui/: make ui")

    async def work(world: World) -> None:
        checking = await asyncio.create_subprocess_exec(
            node,
            "scripts/types.mjs",
            "--check",
            cwd=UI,
            env={**os.environ, "NOETL_URL": world.api.url},
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await checking.communicate()
        assert checking.returncode == 0, said.decode()

    serve(tmp_path, work)
