"""NATS for `noetl up`: the binary of a wheel, on loopback with a password, with synced writes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from noetl.defaults import HOST
from noetl.errors import Rejected
from noetl.runtime.devcluster.folder import Folder, random_password
from noetl.runtime.devcluster.postgres import EXTRAS
from noetl.runtime.devcluster.processes import ServiceSpec

USER: Final = "noetl"
PAYLOAD_MB: Final = 8
FILE_STORE_MAX: Final = "50G"
MEMORY_STORE_MAX: Final = "256M"
PORT_FILE: Final = "nats-port"
CONFIG_FILE: Final = "nats.conf"


class Nats:
    """A server with a persistent store. It keeps its port while the port is free."""

    def __init__(self, folder: Folder) -> None:
        """Raises Rejected when the binary is missing."""
        self.store = folder.path / "nats"
        self._program = nats_server_path()
        self._folder = folder
        self._password = folder.secret("nats-password", random_password)
        self.port = free_port(_last_port(folder))
        folder.put(PORT_FILE, f"{self.port}\n")

    def url(self) -> str:
        """It contains the password: pass it in environments only, never on command lines or in logs."""
        return f"nats://{USER}:{self._password}@{HOST}:{self.port}"

    def spec(self) -> ServiceSpec:
        config = self._folder.put(
            CONFIG_FILE,
            f'listen: "{HOST}:{self.port}"\n'
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
        return ServiceSpec(
            name="nats",
            command=(str(self._program), "--config", str(config)),
            environment={"PATH": os.defpath, "TZ": "UTC"},
            ready="Server is ready",
            folder=self.store,
            orphaned=signal.SIGTERM,
        )


def nats_server_path() -> Path:
    """The binary beside our Python, where the wheel installs it, or on the PATH. Raises Rejected."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None or find_spec("nats") is None:
        raise Rejected("no-extra", f"`noetl up` needs its bundled PostgreSQL and NATS: {EXTRAS}")
    return Path(found)


def free_port(wanted: int = 0) -> int:
    """The wanted port on loopback if it is free, or else any free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise Rejected("no-port", f"no port is free on {HOST}")


def is_free(port: int) -> bool:
    return port == free_port(port)


def _last_port(folder: Folder) -> int:
    try:
        port = int((folder.path / PORT_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return 0
    return port if 1024 <= port < 65_536 else 0


def _quoted(path: Path) -> str:
    """A string for the configuration of NATS. Raises Rejected for characters that it cannot contain."""
    text = str(path)
    if not text.isprintable() or '"' in text or "\\" in text:
        raise Rejected(
            "bad-folder", "NATS cannot use a folder with quotes, backslashes or control characters in its name"
        )
    return f'"{text}"'
