"""Log lines contain no secrets: no known secret in any form, and no text that looks like a secret."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from noetl.errors import Unavailable
from noetl.playbook.model import Credential
from noetl.ports import FetchedCredential
from noetl.secret import SHOWN, Secret
from noetl.telemetry.logs import CHARS_MAX, VALUES_MAX, HiddenSecrets, Redaction

CANARY = 'c4n ary/+&="ü'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:hunter2@db:5432/x", "postgresql://***@db:5432/x"),
        ("postgresql://app:hun/ter@2@db/x failed", "postgresql://***@db/x failed"),
        ("nats://token123@host:4222", "nats://***@host:4222"),
        ("GET https://api/x?api_key=abc&page=2", "GET https://api/x?api_key=***&page=***"),
        ("https://api/cb#access_token=abc", "https://api/cb#access_token=***"),
        ("user=app password=hunter2 host=db", "user=app password=*** host=db"),
        ('{"client_secret": "a b c", "id": 7}', '{"client_secret": ***, "id": 7}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: ***"),
        ("sent Bearer abcdef123", "sent Bearer ***"),
        ("Set-Cookie: sid=abc; Path=/", "Set-Cookie: ***"),
        ("token noetl_0199_s3cretpart is unknown", "token *** is unknown"),
        ("eyJhbGciOi.eyJzdWIiOiIx.c2ln", "***"),
        ("key AKIAIOSFODNN7EXAMPLE", "key ***"),
        ("ghp_0123456789abcdef0123", "***"),
        ("app:hunter2@db", "app:***@db"),
        ("link Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg==", "link ***"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert Redaction().text(text) == shown


def test_a_private_key_is_masked_whole_also_when_it_was_cut() -> None:
    body = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n"
    whole = f"before {body}-----END RSA PRIVATE KEY----- after"
    assert Redaction().text(whole) == "before *** after"
    assert Redaction().text(f"before {body}") == "before ***"


@pytest.mark.parametrize(
    "text",
    [
        "partition 7 is not ours",
        "0199b3c2-0000-7000-8000-000000000001 is at position 7, not at 6",
        "a" * 8 + "0123456789abcdef" * 4,
        "/srv/app/.venv/lib/python3.11/site-packages/noetl/control/executions.py",
        "test_of_a_very_long_name_that_is_no_secret_at_all",
        "fetch#2[17]/5",
        "http://127.0.0.1:8080/executions",
    ],
)
def test_what_is_none_stays_as_it_is(text: str) -> None:
    assert Redaction().text(text) == text


def test_a_known_value_is_masked_in_every_form() -> None:
    redaction = Redaction()
    redaction.hide(Secret(CANARY))
    forms = {
        "plain": CANARY,
        "url": quote(CANARY, safe=""),
        "json": json.dumps(CANARY)[1:-1],
        "json of ours": json.dumps(CANARY, ensure_ascii=False)[1:-1],
        "repr": repr(CANARY)[1:-1],
        "base64": base64.b64encode(CANARY.encode()).decode(),
        "hex": CANARY.encode().hex(),
    }
    for name, form in forms.items():
        assert redaction.text(f"<{form}>").rstrip("=>") in (f"<{SHOWN}", f"<{SHOWN}=="), name


def test_values_of_all_sorts_are_shown_or_masked() -> None:
    redaction = Redaction()
    redaction.hide("123456")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    line = {
        "n": 1, "none": None, "secret": "x", "api_key": 7, "number": 123456, "held": Secret("quiet"), "at": at,
        "error": Unavailable("password=abc"), "many": ["a", ("b", {"token": "c"})], "what": object(),
    }  # fmt: skip
    assert redaction.fields(line) == {
        "n": 1, "none": None, "secret": SHOWN, "api_key": SHOWN, "number": SHOWN, "held": SHOWN,
        "at": "2026-01-01T00:00:00+00:00", "error": "Unavailable: password=***",
        "many": ["a", ["b", {"token": SHOWN}]], "what": "<object>",
    }  # fmt: skip


def test_a_value_that_holds_itself_and_a_text_without_end_are_cut() -> None:
    redaction = Redaction()
    around: list[object] = []
    around.append(around)
    assert "<list>" in str(redaction.value(around))
    assert len(redaction.text("x y " * CHARS_MAX)) == CHARS_MAX + 1


def test_the_oldest_of_too_many_values_is_forgotten() -> None:
    redaction = Redaction()
    for number in range(VALUES_MAX + 1):
        redaction.hide(f"value {number:05}")
    assert redaction.text("value 00000") == "value 00000"
    assert redaction.text(f"value {VALUES_MAX:05}") == SHOWN


def test_what_a_provider_gives_is_hidden_from_then_on() -> None:
    class Provider:
        async def fetch(self, credential: Credential, *, fresh: bool = False) -> FetchedCredential:
            return FetchedCredential({"": Secret(f"quiet {credential.name} {fresh}")}, "1")

    redaction = Redaction()
    fetched = asyncio.run(HiddenSecrets(Provider(), redaction).fetch(_credential()))
    assert fetched.values[""].reveal() == "quiet c False"
    assert redaction.text("it said: quiet c False!") == f"it said: {SHOWN}!"


def _credential() -> Credential:
    return Credential(name="c", kind="bearer", at=("keychain", 0))
