"""NATS on a small disk that becomes full, as a container of `deploy/` runs it: with the shell and the tools of busybox."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import nats
import pytest

from tests.chaos.disks import SmallDisk, small_disk
from tests.ports import free_port

SERVER = str(Path(sys.executable).with_name("nats-server"))
DISK_MB = 128  # 64 MiB must be free before a restart helps

needs_busybox = pytest.mark.skipif(not shutil.which("busybox"), reason="busybox is the shell of the image of NATS")


class FullNats(NamedTuple):
    """A stream of it has found the disk full."""

    process: subprocess.Popen[str]
    disk: SmallDisk
    here: Callable[[str], str]  # a script, with the port and the folders of this NATS


@contextmanager
def full_nats(folder: Path, start: Callable[[Callable[[str], str]], Sequence[str]], data: str) -> Iterator[FullNats]:
    """`start` returns the command that starts NATS. `data`: the folder of the data in the container."""
    port, monitor = free_port(), free_port()

    def here(script: str) -> str:
        """Port, folders and programs of the container become those of the test."""
        script = script.replace("8222", str(monitor)).replace(data, f"{folder}/data")
        script = script.replace("/etc/nats/nats.conf", f"{folder}/nats.conf").replace("nats-server", SERVER)
        return re.sub(r"\b(nc|wget|df|awk)(?= )", r"busybox \1", script)

    (folder / "nats.conf").write_text(
        f'listen: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{monitor}"\n'
        f'jetstream {{store_dir: "{folder}/data", max_file_store: 1G}}\n'
    )
    with (
        small_disk(folder / "data", DISK_MB) as disk,
        subprocess.Popen(start(here), stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stderr is not None
            assert any("Server is ready" in line for line in process.stderr)
            asyncio.run(_fill(port, disk))
            yield FullNats(process, disk, here)
        finally:
            process.kill()


async def _fill(port: int, disk: SmallDisk) -> None:
    """Until NATS no longer acknowledges what it gets."""
    async with await nats.connect(f"nats://127.0.0.1:{port}") as client:
        stream = client.jetstream(timeout=2)
        await stream.add_stream(name="S", subjects=["s"])
        disk.fill(leave=3_000_000)
        with suppress(TimeoutError):
            while True:
                await stream.publish("s", bytes(900_000))
