"""`object` on files: addresses, contents, lists, and Refs that `resolve` fetches (D110)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.memory import MemoryResults
from noetl.output import JSON, Output
from noetl.tools.errors import InvalidInput
from noetl.tools.object.stores import ObjectUrl, parse_url
from noetl.tools.object.tool import ObjectInput, ObjectTool
from noetl.tools.resolve import ResolveInput, ResolveTool
from tests.unit.tools.calls import call

RESULTS = MemoryResults()


def ran(folder: Path, **fields: Any) -> Output:
    if "as" in fields:
        fields["as_"] = fields.pop("as")
    return asyncio.run(ObjectTool().run(ObjectInput(**fields), call(folder=str(folder), results=RESULTS)))


def resolved(ref: JSON, *, trusted: bool = True, **fields: Any) -> Output:
    made = call(results=RESULTS)._replace(refs=(ref,) if trusted else ())
    return asyncio.run(ResolveTool().run(ResolveInput(ref=ref, **fields), made))


def error(output: Output) -> tuple[str, str]:
    assert output.error is not None
    return output.error.kind, output.error.message


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/a/b.csv", ObjectUrl("s3", "bucket", "a/b.csv")),
        ("gs://bucket/a#b?c%20d", ObjectUrl("gs", "bucket", "a#b?c%20d")),
        ("az://container/x", ObjectUrl("az", "container", "x")),
        ("file:///tmp/x", ObjectUrl("file", "", "tmp/x")),
        ("file:///tmp/../etc/x", ObjectUrl("file", "", "etc/x")),
        ("data/x.csv", ObjectUrl("file", "", "home/data/x.csv")),
        ("/data/x.csv", ObjectUrl("file", "", "data/x.csv")),
    ],
)
def test_an_address_is_a_url_or_a_path(text: str, url: ObjectUrl) -> None:
    assert parse_url("`get`", text, "/home") == url
    assert parse_url("`get`", str(url), "/home") == url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://bucket/x", "must begin with s3://, gs://, az://, file://, or be a path"),
        ("s3://", "has no valid bucket"),
        ("s3://b@d/x", "has no valid bucket"),
        ("s3://bucket", "names no object"),
        ("s3://bucket/", "names no object"),
        ("file://host/x", "with three slashes"),
        ("../x", "leads outside the playbook's directory"),
        ("s3://bucket/a\nb", "contains a control character"),
    ],
)
def test_other_addresses_are_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_url("`get`", text, str(tmp_path))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("name", "fields", "body", "data"),
    [
        ("a.json", {"json": {"n": 1}}, b'{"n":1}', {"n": 1}),
        ("null.json", {"json": None}, b"null", None),
        ("a.txt", {"text": "grüße"}, "grüße".encode(), "grüße"),
        ("a.csv", {"text": "a,b\n"}, b"a,b\n", "a,b\n"),
        ("deep/er/a", {"text": ""}, b"", ""),
    ],
)
def test_what_is_written_is_read(name: str, fields: dict[str, Any], body: bytes, data: JSON, tmp_path: Path) -> None:
    written = ran(tmp_path, put=name, **fields)
    assert written.error is None, written.error
    assert written.data == {"url": f"file://{tmp_path}/{name}", "bytes": len(body)}
    assert (tmp_path / name).read_bytes() == body
    assert ran(tmp_path, get=name).data == data
    assert resolved(written.ref).data == data


def test_bytes_that_are_no_text_are_base64(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\xff\x00")
    assert ran(tmp_path, get="x.bin").data == {"base64": "/wA="}


def test_a_ref_names_an_object_without_reading_it(tmp_path: Path) -> None:
    (tmp_path / "rows.ndjson").write_text('{"a": 1, "b": 2}\n{"a": 3, "b": 4}\n')
    seen = ran(tmp_path, get="rows.ndjson", **{"as": "ref"})
    assert seen.data is None
    assert seen.ref is not None
    assert seen.ref["type"] == "object_store"
    assert seen.ref["locator"] == {"system": "file", "url": f"file://{tmp_path}/rows.ndjson"}
    assert (seen.ref["meta"]["content_type"], seen.ref["meta"]["bytes"]) == ("application/x-ndjson", 34)
    assert resolved(seen.ref, slice="1:", columns=["a"]).data == [{"a": 3}]
    assert resolved(seen.ref, limit=1).data == [{"a": 1, "b": 2}]
    assert error(resolved(seen.ref, trusted=False))[0] == "reference"
    assert error(resolved(seen.ref, to="csv")) == (
        "input", "`to: csv` is for rows of a database; an object needs `to: file`",
    )  # fmt: skip
    copied = resolved(seen.ref, to="file")
    assert copied.ref is not None
    assert copied.ref["meta"]["bytes"] == 34
    (tmp_path / "rows.ndjson").write_text("other")
    assert error(resolved(seen.ref)) == ("object", f'"file://{tmp_path}/rows.ndjson" has changed')


def test_a_list_has_all_objects_of_a_folder_or_says_that_there_are_more(tmp_path: Path) -> None:
    for name in ("a/1.txt", "a/b/2.txt", "c/3.txt"):
        assert ran(tmp_path, put=name, text=name).error is None
    listed = ran(tmp_path, list="a")
    assert sorted(row["path"] for row in listed.data) == [f"{tmp_path}/a/1.txt", f"{tmp_path}/a/b/2.txt"]
    assert listed.own["object"]["more"] is False
    part = ran(tmp_path, list=".", limit=2)
    assert (len(part.data), part.own["object"]["more"]) == (2, True)
    assert ran(tmp_path, list="nothing").data == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"put": "x"}, "`put` needs exactly one of `json`, `text` and `from_ref`"),
        ({"put": "x", "text": "a", "json": 1}, "`put` needs exactly one of"),
        ({"put": "x", "from_ref": {"a": 1}}, "`from_ref` must be a Ref"),
        ({"copy": "x"}, "`copy` needs `to`"),
        ({"put": "x", "text": "\ud800"}, "`text` is not valid Unicode"),
        ({}, "exactly one of `get`, `put`, `list`, `delete` and `copy` is required"),
        ({"get": "x", "put": "y", "text": "z"}, "exactly one of `get`, `put`"),
        ({"get": "s3://b"}, "has no valid bucket"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    kind, message = error(ran(tmp_path, **fields))
    assert (kind, words in message) == ("input", True), message


def test_a_missing_file_and_invalid_json_are_errors(tmp_path: Path) -> None:
    assert error(ran(tmp_path, get="nope"))[1] == f'there is no object "file://{tmp_path}/nope"'
    assert error(ran(tmp_path, copy="nope", to="x"))[1] == f'there is no object "file://{tmp_path}/nope"'
    (tmp_path / "bad.json").write_text("{")
    assert "is not valid JSON" in error(ran(tmp_path, get="bad.json"))[1]
    assert ran(tmp_path, delete="nope").data == {"url": f"file://{tmp_path}/nope"}


def test_an_object_above_the_limit_needs_a_file_or_a_ref(tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(65 << 20)
    kind, message = error(ran(tmp_path, get="large.txt"))
    assert (kind, message.endswith("use `as: file`")) == ("payload-too-large", True)
    assert ran(tmp_path, get="large.txt", **{"as": "file"}).error is None
