"""A NATS server that tests can kill, wipe and restart on the same loopback port."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO

from tests.ports import free_port
from tests.sizes import refuse_in_quick_run

_PROGRAM = Path(sys.executable).with_name("nats-server")


class NatsServer:
    """`more`: additional lines of the configuration."""

    def __init__(self, folder: Path, more: str = "") -> None:
        refuse_in_quick_run("NATS")
        self.folder, self.port, self.more = folder, free_port(), more
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: Thread | None = None
        self._jetstream = True

    def start(self, *, jetstream: bool = True) -> None:
        config = self.folder / "nats.conf"
        store = f'jetstream {{ store_dir: "{self.folder / "store"}", max_file_store: 1G }}' if jetstream else ""
        config.write_text(f'listen: "127.0.0.1:{self.port}"\n{store}\n{self.more}\n')
        self._process = subprocess.Popen([str(_PROGRAM), "-c", str(config)], stderr=subprocess.PIPE)
        said = self._process.stderr
        assert said is not None
        lines = []
        for line in said:
            lines.append(line)
            if b"Server is ready" in line:
                break
        else:
            raise AssertionError(b"".join(lines).decode())
        self._reading = Thread(target=_drain, args=(said,), daemon=True)
        self._reading.start()

    def reload(self, more: str) -> None:
        """Load another configuration without a restart."""
        assert self._process is not None
        self.more = more
        self._config()
        self._process.send_signal(signal.SIGHUP)

    def _config(self) -> str:
        config = self.folder / "nats.conf"
        store = f'store_dir: "{self.folder / "store"}", max_file_store: 1G'
        jetstream = f"jetstream {{ {store} }}" if self._jetstream else ""
        config.write_text(f'listen: "127.0.0.1:{self.port}"\n{jetstream}\n{self.more}\n')
        return str(config)

    def kill(self) -> None:
        """kill -9, like a crash."""
        if self._process is not None:
            assert self._reading is not None
            self._process.kill()
            self._process.wait()
            self._reading.join()
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None

    def wipe(self) -> None:
        shutil.rmtree(self.folder / "store", ignore_errors=True)


@contextmanager
def running_nats(folder: Path, more: str = "", *, jetstream: bool = True) -> Iterator[NatsServer]:
    server = NatsServer(folder, more)
    server.start(jetstream=jetstream)
    try:
        yield server
    finally:
        server.kill()


def _drain(said: IO[bytes]) -> None:
    for _ in said:
        pass
