"""Documents that are encoded part by part are the same JSON."""

from __future__ import annotations

import msgspec

from noetl.api.analysis import ExplainResponse
from noetl.api.playbooks import CheckResponse
from noetl.server.encoding import encode_parts
from noetl.views.documents import problem_document
from noetl.views.explain import explain
from tests.playbooks import checked, kinds

TEXT = "input: {day: {type: date}}\nworkflow:\n- step: start\n  tool: {kind: noop, typo: 1}\n  next: {arcs: [{step: nowhere}]}\n"


def test_a_document_is_encoded_as_the_encoder_does() -> None:
    found = checked(TEXT)
    assert found.program is not None
    problems = tuple(map(problem_document, found.problems))
    assert len(problems) >= 2
    explanation = explain(found.program, kinds())
    for document in (
        CheckResponse(ok=True, problems=()),
        CheckResponse(ok=False, problems=problems),
        ExplainResponse(text="ü\n", explanation=explanation),
    ):
        assert encode_parts(document) == msgspec.json.encode(document)
