"""NATS for `noetl up`: the program of a wheel, on loopback with a password, and every write synced."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from noetl.errors import Rejected
from noetl.runtime.devcluster.folder import Folder, random_word
from noetl.runtime.devcluster.postgres import EXTRAS
from noetl.runtime.devcluster.processes import Program

USER: Final = "noetl"
PAYLOAD_MB: Final = 8
FILE_STORE_MAX: Final = "50G"
MEMORY_STORE_MAX: Final = "256M"
PORT_FILE: Final = "nats-port"
CONFIG_FILE: Final = "nats.conf"


class Nats:
    """A server whose store is kept; its port stays the same as long as it is free."""

    def __init__(self, folder: Folder) -> None:
        """Raises Rejected when the program is not there."""
        self.store = folder.path / "nats"
        self._program = program_path()
        self._folder = folder
        self._password = folder.secret("nats-password", random_word)
        self.port = free_port(_remembered(folder))
        folder.put(PORT_FILE, f"{self.port}\n")

    def url(self) -> str:
        """It holds the password: for environments of processes, never for command lines and logs."""
        return f"nats://{USER}:{self._password}@127.0.0.1:{self.port}"

    def program(self) -> Program:
        config = self._folder.put(
            CONFIG_FILE,
            f'listen: "127.0.0.1:{self.port}"\n'
            'server_name: "noetl-up"\n'
            f"max_payload: {PAYLOAD_MB}MB\n"
            f'authorization {{ user: "{USER}", password: "{self._password}" }}\n'
            "jetstream {\n"
            f"  store_dir: {_quoted(self.store)}\n"
            "  sync_interval: always\n"
            f"  max_file_store: {FILE_STORE_MAX}\n"
            f"  max_memory_store: {MEMORY_STORE_MAX}\n"
            "}\n",
        )
        self.store.mkdir(mode=0o700, exist_ok=True)
        return Program(
            name="nats",
            command=(str(self._program), "--config", str(config)),
            environment={"PATH": os.defpath, "TZ": "UTC"},
            ready="Server is ready",
            folder=self.store,
            orphaned=signal.SIGTERM,
        )


def program_path() -> Path:
    """Beside our Python, where the wheel puts it, or on the path. Raises Rejected."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None or find_spec("nats") is None:
        raise Rejected("no-extra", f"`noetl up` needs its own PostgreSQL and NATS: {EXTRAS}")
    return Path(found)


def free_port(wanted: int = 0) -> int:
    """This one on loopback if nobody has it, else any."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise Rejected("no-port", "no port is free on 127.0.0.1")


def is_free(port: int) -> bool:
    return port == free_port(port)


def _remembered(folder: Folder) -> int:
    try:
        port = int((folder.path / PORT_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return 0
    return port if 1024 <= port < 65_536 else 0


def _quoted(path: Path) -> str:
    """As a text in the settings of NATS, whatever stands in the name of a folder. Raises Rejected."""
    text = str(path)
    if not text.isprintable() or '"' in text or "\\" in text:
        raise Rejected(
            "bad-folder",
            "NATS can not use a folder with quotes, backslashes or control characters in its name",
        )
    return f'"{text}"'
