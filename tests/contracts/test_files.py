"""Results in files keep the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.adapters.files.results import FileResults
from noetl.ports import ResultStore
from noetl.testing.contracts import ResultStoreContract


class TestFileResults(ResultStoreContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.root = tmp_path / "results"

    def make(self) -> ResultStore:
        return FileResults(self.root)
