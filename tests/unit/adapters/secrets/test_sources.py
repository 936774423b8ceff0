"""Variables and files: found, or reported with their place and never with their content."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from noetl.adapters.secrets.sources import SourcePolicy, Sources
from noetl.errors import NoetlError
from noetl.secret import SECRET_BYTES_MAX


def read(path: str | Path) -> str:
    return asyncio.run(Sources({}).file(str(path))).reveal()


def refusal(path: str | Path) -> str:
    with pytest.raises(NoetlError) as caught:
        read(path)
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("body", "text"),
    [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a "), ("a", "a"), ("ü\n", "ü")],
)
def test_one_newline_at_the_end_of_a_file_is_no_part_of_the_secret(body: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(body.encode())
    assert read(tmp_path / "s") == text


def test_a_file_that_can_not_be_a_secret_is_told_by_its_path(tmp_path: Path) -> None:
    at = tmp_path / "s"
    assert refusal(at) == f'NotFound: there is no file "{at}"'
    assert refusal(tmp_path) == f'NotFound: "{tmp_path}" is not a regular file'
    at.write_bytes(b"\n")
    assert refusal(at) == f'NotFound: the file "{at}" is empty'
    at.write_bytes(b"hunter22\xff")
    assert refusal(at) == f'Unavailable: the file "{at}" is not UTF-8 text'
    at.write_bytes(b"x" * (SECRET_BYTES_MAX + 1))
    assert "limit SECRET_BYTES_MAX: 65,536 bytes" in refusal(at)
    assert "must be absolute" in refusal("relative/s")
    assert "invalid path" in refusal(f"{at}\0")


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal(tmp_path / "pipe")


def test_a_path_may_begin_at_home() -> None:
    assert refusal("~/no such file") == f'NotFound: there is no file "{Path.home()}/no such file"'


@pytest.mark.parametrize(("environment", "state"), [({}, "not set"), ({"TOKEN": ""}, "empty")], ids=["unset", "empty"])
def test_a_variable_without_a_value_is_told_by_its_name(environment: dict[str, str], state: str) -> None:
    with pytest.raises(NoetlError, match=f'the environment variable "TOKEN" is {state}'):
        Sources(environment).variable("TOKEN")


@pytest.mark.parametrize("name", ["NOETL_LINK_KEY", "NOETL_KEY", "NOETL_DB"])
@pytest.mark.parametrize("policy", [SourcePolicy(), SourcePolicy.of_server("*", None, "")], ids=["own", "server"])
def test_settings_of_the_house_are_nobodys_credential(name: str, policy: SourcePolicy) -> None:
    with pytest.raises(NoetlError, match=": it is a setting of NoETL itself"):
        Sources({name: "hunter22"}, policy).variable(name)


def test_authors_on_a_server_name_what_its_operator_lists() -> None:
    environment = {"SHOP_KEY": "a", "PG_PASSWORD": "b", "AWS_SECRET_ACCESS_KEY": "c", "NOETL_SECRET_X": "d"}
    sources = Sources(environment, SourcePolicy.of_server("PG_PASSWORD, SHOP_*", None, ""))
    found = [sources.variable(name).reveal() for name in ("SHOP_KEY", "PG_PASSWORD", "NOETL_SECRET_X")]
    assert found == ["a", "b", "d"]
    with pytest.raises(NoetlError, match="its operator can list it in NOETL_SECRET_VARIABLES"):
        sources.variable("AWS_SECRET_ACCESS_KEY")
    assert sources.own("AWS_SECRET_ACCESS_KEY").reveal() == "c"  # what the operator has set for us
    assert Sources(environment).variable("AWS_SECRET_ACCESS_KEY").reveal() == "c"  # one's own machine


def test_files_of_a_server_lie_in_its_folders_wherever_a_link_leads(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "open", tmp_path / "closed"
    for each in (folder, elsewhere):
        each.mkdir()
        (each / "key").write_text("hunter22")
    (folder / "link").symlink_to(elsewhere / "key")
    sources = Sources({}, SourcePolicy.of_server("", str(folder), ""))
    assert asyncio.run(sources.file(str(folder / "key"))).reveal() == "hunter22"
    for path in (elsewhere / "key", folder / "link", folder / ".." / "closed" / "key"):
        with pytest.raises(NoetlError, match="on this server, only files in") as caught:
            asyncio.run(sources.file(str(path)))
        assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/1/environ", "/dev/stdin", "/sys/kernel/notes"])
def test_files_of_the_system_hold_no_credential(path: str, tmp_path: Path) -> None:
    assert "is a system file" in refusal(path)
    (tmp_path / "link").symlink_to("/proc/self")
    assert "is a system file" in refusal(tmp_path / "link" / "environ")


@pytest.mark.parametrize("value", [True, {"no": "x"}, {"env": 1}, ["x"], None])
def test_a_field_that_is_no_value_is_refused(value: object) -> None:
    with pytest.raises(NoetlError, match="a field must be text, a number"):
        asyncio.run(Sources({}).value(value))
