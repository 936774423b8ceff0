"""Services for tests of result stores, each a process on a loopback port, which ends with the test run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO

from tests.ports import free_port
from tests.sizes import refuse_in_quick_run

_NATS = Path(sys.executable).with_name("nats-server")


@contextmanager
def nats_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """A NATS server that syncs every write; yields its address."""
    port = port or free_port()
    settings = folder / "nats.conf"
    settings.write_text(
        f'listen: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{folder / "store"}", sync_interval: always, max_file_store: 2G }}\n'
    )
    with _process([str(_NATS), "-c", str(settings)], re.compile(rb"Server is ready"), folder):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def moto_server(folder: Path) -> Iterator[str]:
    """An S3 server of moto; yields its address. The environment has its credentials meanwhile."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    keys = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    before = {name: os.environ.get(name) for name in keys}
    with _process(command, re.compile(rb"Running on http"), folder):
        os.environ.update(keys)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def make_bucket(endpoint: str, name: str) -> None:
    """Create a bucket. moto accepts requests without a signature."""
    from urllib.request import Request, urlopen

    with urlopen(Request(f"{endpoint}/{name}", method="PUT"), timeout=60) as answer:
        assert answer.status == 200


@contextmanager
def _process(command: list[str], ready: re.Pattern[bytes], folder: Path) -> Iterator[None]:
    """Start a process, wait for its ready line, and keep reading, so that its pipe never fills."""
    refuse_in_quick_run(command[0])
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=folder
    ) as process:
        assert process.stdout is not None
        reader = None
        try:
            for line in process.stdout:
                if ready.search(line):
                    break
            else:
                raise AssertionError(f"{command[0]} ended with {process.wait()}")
            reader = Thread(target=_drain, args=(process.stdout,), daemon=True)
            reader.start()
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            if process.poll() is None:
                process.kill()
            if reader is not None:
                reader.join(60)


def _drain(said: IO[bytes]) -> None:
    with suppress(ValueError):
        for _ in said:
            pass
