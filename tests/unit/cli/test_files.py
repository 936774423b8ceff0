"""Reading and writing files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from noetl.cli.output.documents import put, write_file
from noetl.session.errors import UsageError


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("old")
    file.chmod(0o640)
    before = file.stat().st_ino
    write_file(str(file), b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)
    assert file.stat().st_ino != before
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("old")
    link = tmp_path / "link.yaml"
    link.symlink_to("real.yaml")
    write_file(str(link), b"new")
    assert (link.is_symlink(), (tmp_path / "real.yaml").read_bytes()) == (True, b"new")


def test_what_can_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as folder:
        write_file(str(tmp_path), b"x")
    with pytest.raises(UsageError) as nowhere:
        write_file(str(tmp_path / "no" / "a.yaml"), b"x")
    assert [str(folder.value), str(nowhere.value)] == [
        f"{tmp_path}: this is a folder, not a file",
        f"{tmp_path / 'no' / 'a.yaml'}: there is no such file",
    ]
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_file(os.devnull, b"x")
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize("out", [None, "-"])
def test_without_a_file_the_bytes_go_to_standard_output(
    out: str | None, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    put("größer\r\n".encode(), out)
    assert capfdbinary.readouterr().out == "größer\r\n".encode()
