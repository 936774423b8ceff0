"""Secrets in all their forms become `***`, and nothing else does."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import os
import struct
import textwrap
from collections.abc import AsyncIterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.masking import HELD_BYTES, STREAM_BYTES, Mask
from noetl.output import Failure, Output

AWKWARD = "p@ss/w\"ö\\rd +\n🎉'<x>&"
UTF16 = AWKWARD.encode("utf-16-le")
ENTITIES = str.maketrans({"@": "&commat;", "/": "&sol;", '"': "&quot;", "\\": "&bsol;", "+": "&plus;", "\n": "&NewLine;",
                          "'": "&apos;", "<": "&lt;", ">": "&gt;", "&": "&amp;"})  # fmt: skip
FORMS = {
    "raw": AWKWARD,
    "quoted": quote(AWKWARD),
    "quoted all": quote(AWKWARD, safe=""),
    "quoted plus": quote_plus(AWKWARD),
    "quoted lower": quote(AWKWARD, safe="").lower(),
    "quoted twice": quote(quote(AWKWARD, safe=""), safe=""),
    "json": json.dumps(AWKWARD)[1:-1],
    "json unicode": json.dumps(AWKWARD, ensure_ascii=False)[1:-1],
    "json in json": json.dumps(json.dumps(AWKWARD))[3:-3],
    "repr": repr(AWKWARD)[1:-1],
    "ascii": ascii(AWKWARD)[1:-1],
    "bytes": repr(AWKWARD.encode())[2:-1],
    "html": html.escape(AWKWARD),
    "hex": AWKWARD.encode().hex(),
    "HEX": AWKWARD.encode().hex().upper(),
    "base64": base64.b64encode(AWKWARD.encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(AWKWARD.encode()).decode(),
    "base64 in a url": quote(base64.b64encode(AWKWARD.encode()).decode(), safe=""),
    "base64 in lines": "\n".join(textwrap.wrap(base64.b64encode(AWKWARD.encode()).decode(), 7)),
    "base64 in lines of MIME": "\r\n\t".join(textwrap.wrap(base64.b64encode(AWKWARD.encode()).decode(), 5)),
    "base64 in lines of JSON": json.dumps("\r\n".join(textwrap.wrap(base64.b64encode(AWKWARD.encode()).decode(), 9)))[
        1:-1
    ],
    "hex in lines": "\n".join(textwrap.wrap(AWKWARD.encode().hex(), 8)),
    "hex of a certificate": AWKWARD.encode().hex(":"),
    "hex of a dump": AWKWARD.encode().hex(" ", 2),
    "hex of C": ", ".join(f"0x{byte:02X}" for byte in AWKWARD.encode())[2:],
    "escaped bytes": "".join(f"\\x{byte:02x}" for byte in AWKWARD.encode()),
    "percent all": "".join(f"%{byte:02X}" for byte in AWKWARD.encode()),
    "percent all twice": "".join(f"%25{byte:02x}" for byte in AWKWARD.encode()),
    "unicode all": "".join(f"\\u{unit:04x}" for unit in struct.unpack(f"<{len(UTF16) // 2}H", UTF16)),
    "entities all": "".join(f"&#{ord(each)};" for each in AWKWARD),
    "hex entities all": "".join(f"&#x{ord(each):04X};" for each in AWKWARD),
    "named entities": AWKWARD.translate(ENTITIES),
    "entities quoted again": html.escape("".join(f"&#{ord(each)};" for each in AWKWARD)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_a_secret_is_masked_d20(form: str) -> None:
    mask = Mask([AWKWARD])
    assert mask.text(f"<< {form} >>") == "<< *** >>"
    assert mask.value({"a": [f"<< {form} >>"]}) == {"a": ["<< *** >>"]}


def test_the_cause_of_a_failure_is_masked_d105() -> None:
    cause = Failure(kind="http", message=f"401 for {AWKWARD}", details={"token": AWKWARD})
    failure = Failure(kind="rule", message="refused", cause=cause)
    masked = Failure(
        kind="rule", message="refused", cause=Failure(kind="http", message="401 for ***", details={"token": "***"})
    )
    assert Mask([AWKWARD]).output(Output(status="error", error=failure)).error == masked


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("secret", ["hunter2", "hunter22", "hunter222"])
def test_base64_of_a_longer_text_shows_no_bit_of_the_secret_in_it(before: int, after: int, secret: str) -> None:
    one = base64.b64encode(b"~" * before + secret.encode() + b"~" * after).decode()
    other = base64.b64encode(b"~" * before + b"?" * len(secret) + b"~" * after).decode()
    masked = Mask([secret]).text(one)
    left, _, right = masked.partition("***")
    assert "***" in masked
    assert other.startswith(left)
    assert other.rstrip("=").endswith(right.rstrip("="))


@given(st.text(min_size=4, max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_no_secret_survives_in_any_text_around_it(secret: str, before: str, after: str) -> None:
    mask = Mask([secret])
    for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1], secret.encode().hex()):
        assert form.replace("***", "") == "" or form not in mask.text(f"{before}{form}{after}")


def test_data_without_a_secret_is_given_back_as_it_is() -> None:
    mask = Mask(["hunter22", "x"])
    data = {"rows": [{"a": 1, "b": None, "c": "hunter 22", "d": "x"}] * 3}
    output = Output(data=data, own={"http": {"status": 200}})
    assert mask.output(output) is output


def test_keys_own_parts_errors_and_details_are_masked_and_a_ref_stays() -> None:
    mask = Mask(["hunter22"])
    ref = {"type": "blob", "locator": {"key": "hunter22"}}
    failure = Failure(kind="http", message="no hunter22", details={"hunter22": ["hunter22"]})
    output = Output(
        status="error",
        data={"hunter22": {"x": "hunter22!"}},
        ref=ref,
        error=failure,
        own={"py": {"stdout": "hunter22\n"}},
        meta={"note": "hunter22"},
    )
    assert mask.output(output) == Output(
        status="error",
        data={"***": {"x": "***!"}},
        ref=ref,
        error=Failure(kind="http", message="no ***", details={"***": ["***"]}),
        own={"py": {"stdout": "***\n"}},
        meta={"note": "***"},
    )


def test_a_secret_of_digits_is_masked_as_a_number_too() -> None:
    mask = Mask(["48151623", "2.71828182"])
    assert mask.value([48151623, 2.71828182, 4815162, True]) == ["***", "***", 4815162, True]


def test_what_is_shorter_than_four_characters_is_not_masked() -> None:
    assert Mask(["abc", ""]).text("abcabc") == "abcabc"
    assert Mask(["abcd"]).text("abcabcd") == "abc***"


def test_parts_of_long_secrets_are_masked_too() -> None:
    key = "-----BEGIN KEY-----\n" + "\n".join(f"line{n:02}" * 8 for n in range(30)) + "\n-----END KEY-----"
    mask = Mask([key])
    assert mask.text(f"<{key}>") == "<***>"
    assert mask.text("see " + "line07" * 8) == "see ***"
    token = base64.b64encode(bytes(range(256)) * 2).decode()
    assert mask.text(token) == token
    assert Mask([token]).text(f"<{token[100:400]}>").count(token[200:260]) == 0


def test_the_password_of_an_address_and_the_fields_of_json_are_secrets_themselves() -> None:
    assert Mask(["postgresql://ann:hun%2Fter22@db/x"]).text("hun/ter22 hun%2Fter22") == "*** ***"
    assert Mask(['{"user": "a", "keys": ["hunter2222"]}']).text("key hunter2222 of a") == "key *** of a"


def test_text_that_is_no_unicode_can_be_masked() -> None:
    assert Mask(["hunter22"]).text("hunter22 \ud800") == "*** ?"


@pytest.mark.parametrize("cut", ["hunter2-abcdef", "hunter2-abcdef…", "hunter2-abcdefghijklmno\n… 12 bytes more"])
def test_a_secret_that_was_cut_off_is_masked_too(cut: str) -> None:
    mask = Mask(["hunter2-abcdefghijklmnop"])
    assert "hunter2" not in mask.text(f"see {cut}")
    assert mask.text("hunter2-abc continues") == "hunter2-abc continues"


def test_a_secret_that_was_taken_for_a_part_of_a_url_is_masked_in_parts() -> None:
    assert Mask(["hunter22/hunter33?x"]).text("GET http://h/hunter22 and hunter33") == "GET http://h/*** and ***"
    assert Mask(["postgresql://ann@db"]).text("postgresql") == "postgresql"


def streamed(mask: Mask, body: bytes, size: int, content_type: str = "text/plain") -> bytes:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async def go() -> bytes:
        return b"".join([chunk async for chunk in mask.stream(chunks(), content_type)])

    return asyncio.run(go())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("size", [1, 7, 4_096, STREAM_BYTES, STREAM_BYTES + 1, 10**9])
def test_a_stream_is_masked_however_it_is_divided(form: str, size: int) -> None:
    """The secret is at every border that a chunk or the search can have."""
    edges = [STREAM_BYTES - HELD_BYTES, STREAM_BYTES, 2 * STREAM_BYTES - 2 * HELD_BYTES, 150_000]
    body, expected = bytearray(b"." * 200_000), b""
    at = 0
    for edge in edges:
        start = edge - len(form.encode()) // 2
        expected += b"." * (start - at) + b"***"
        body[start : start + len(form.encode())] = form.encode()
        at = start + len(form.encode())
    expected += b"." * (200_000 - at)
    if size == 1:
        body, expected = body[:60_000], expected[: 60_000 - len(form.encode()) + 3]
    assert streamed(Mask([AWKWARD]), bytes(body), size) == expected


def test_the_end_of_a_stream_hides_a_secret_that_is_cut_off() -> None:
    mask = Mask(["correct-horse-battery-staple"])
    assert streamed(mask, b"x" * 100_000 + b"correct-horse-battery-st", 1_000) == b"x" * 100_000 + b"***"
    middle = b"correct-horse-battery-st is no secret" + b"x" * 100_000
    assert streamed(mask, middle, STREAM_BYTES) == middle


def test_a_secret_repeated_over_many_chunks_is_masked() -> None:
    assert streamed(Mask(["hunter2-hunter2"]), b"hunter2-hunter2" * 50_000 + b"!", 1_000) == b"***!"


def test_a_masked_stream_of_json_stays_json() -> None:
    rows = [{"n": 40917355, "m": -40917355.5, "text": "pin 40917355", "tab": "\t40917355", "q": 'x"nothing-to-see'}]
    body = json.dumps(rows).encode()
    mask = Mask(["40917355", "nothing-to-see", "t40917355"])
    for size in (3, 10**6):
        masked = json.loads(streamed(mask, body, size, "application/json"))
        assert masked == [
            {"n": 99999999, "m": -99999999.5, "text": "pin 99999999", "tab": "\\***", "q": 'x"***'}
        ]  # fmt: skip


def test_a_masked_stream_of_binary_data_keeps_its_length() -> None:
    mask = Mask(["hunter2-hunter2", "abcd"])
    assert mask.body(b"\0abcd\0hunter2-hunter2\0", "application/octet-stream") == b"\0abcd\0" + b"*" * 15 + b"\0"


def test_data_without_a_secret_passes_unchanged() -> None:
    body = os.urandom(300_000)
    assert streamed(Mask(["correct-horse-battery-staple"]), body, 10_000, "image/png") == body
