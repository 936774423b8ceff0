"""Python packages for tests, made here so that no index is needed."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, version: str) -> None:
    """A package `noetl-probe` with one module."""
    info = f"noetl_probe-{version}.dist-info"
    files = {
        "noetl_probe.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: noetl-probe\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"noetl_probe-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            archive.writestr(name, text)
            record += f"{name},sha256={digest},{len(text)}\n"
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
