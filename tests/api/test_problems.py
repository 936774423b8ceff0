"""Exceptions as problem+json. An unexpected exception reveals no details."""

from __future__ import annotations

import msgspec
import pytest

from noetl.errors import Conflict, Damaged, Mark, NotFound, PlaybookError, Problem, Rejected, Unavailable
from noetl.server.analysis import PROBLEMS_MAX
from noetl.server.errors import details_of, error_response
from tests.api.servers import logged


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (NotFound("no execution x"), 404, "not-found"),
        (Rejected("execution-over", "it has ended"), 409, "execution-over"),
        (Rejected("unknown-step", "there is none"), 422, "unknown-step"),
        (Rejected("payload-too-large", "it is"), 413, "payload-too-large"),
        (Unavailable("no answer"), 503, "unavailable"),
        (Conflict("another was first"), 503, "unavailable"),
        (Unavailable("the commit failed: storage full: make space"), 507, "storage-full"),
        (Damaged("spoilt"), 500, "damaged"),
    ],
)
def test_every_error_has_its_status(error: Exception, status: int, code: str) -> None:
    told, headers = details_of(error)
    assert (told.status, told.code, told.type) == (status, code, f"urn:noetl:problem:{code}")
    assert told.detail == str(error).removeprefix(f"{code}: ")
    assert ("Retry-After" in headers) == (status == 503)


def test_problems_of_a_playbook_keep_their_positions() -> None:
    problem = Problem("unknown-step", "error", "no such step", Mark("p", 3, 5), "write another")
    told, _ = details_of(PlaybookError([problem]))
    assert told.status == 422
    assert isinstance(told.problems, tuple)
    shown = told.problems[0]
    assert (shown.code, shown.line, shown.column, shown.fix) == ("unknown-step", 3, 5, "write another")


def test_an_unexpected_exception_reveals_nothing() -> None:
    secret = "correct horse"
    with logged() as lines:
        response = error_response(KeyError(secret))
    assert response.status_code == 500
    assert secret not in str(response.content)
    assert msgspec.json.decode(lines.getvalue())["event"] == "request.failed"
    assert secret not in lines.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('"/var/lib/noetl/noetl.db" cannot be written: disk full', '"noetl.db" cannot be written: disk full'),
        ('"/srv/my data/n.db" is busy', '"n.db" is busy'),
        ('"/results" cannot be created', '"results" cannot be created'),
        ('result a/b in "/srv/results/": gone', 'result a/b in "results": gone'),
        ("a stream cannot be buffered in /var/tmp/noetl: full", "a stream cannot be buffered in noetl: full"),
        ("the result store s3://bucket/a/b fails", "the result store s3://bucket/a/b fails"),
        ("2 of 3/4 partitions", "2 of 3/4 partitions"),
    ],
)
@pytest.mark.parametrize("error", [Unavailable, Damaged])
def test_errors_do_not_show_the_folders_of_the_server(error: type[Exception], text: str, shown: str) -> None:
    assert details_of(error(text))[0].detail == shown


def test_an_error_lists_a_limited_number_of_problems() -> None:
    problems = [Problem("unknown-step", "error", "no such step", Mark("p", line, 1)) for line in range(1, 5_000)]
    told, _ = details_of(PlaybookError(problems))
    assert isinstance(told.problems, tuple)
    assert len(told.problems) == PROBLEMS_MAX
    assert told.detail.endswith("no such step (the first 1,000 of 4,999 are listed)")
    assert str(PlaybookError(problems[:2])) == "p:1:1: unknown-step: no such step\np:2:1: unknown-step: no such step"
