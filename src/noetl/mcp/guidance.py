"""What clients read beside the tools: instructions, resources and prompts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import noetl
from noetl.errors import NotFound
from noetl.mcp.context import Installed
from noetl.views.language_card import language_card
from noetl.views.language_topics import PROBLEMS
from noetl.views.tool_kinds import kind_document

INSTRUCTIONS: Final = """\
NoETL runs playbooks: YAML documents that orchestrate APIs, databases and scripts.
To write one: describe_language, then describe_tool for the kinds that you need; check the text, and correct it by the \
`edits` and `fix` of its problems until `ok`; plan shows its effects; test runs it on stubs; run runs it.
If an execution fails: status, then why with the failed step, and logs; correct the text, and try it with what_if; \
fork keeps the finished work.
Large answers are cut and say how to get the rest.
Ask people before you run a playbook with effects that they did not ask for.
"""

LANGUAGE: Final = "noetl://language"
PROBLEM_CODES: Final = "noetl://problems"
EXAMPLES: Final = "noetl://examples/"
TOOL: Final = "noetl://tools/"
TEMPLATES: Final = {
    f"{LANGUAGE}/{{topic}}": "One topic of the language",
    f"{TOOL}{{kind}}": "One kind of tasks: its fields, options, output and an example",
}


class GuidanceText(NamedTuple):
    """A resource."""

    uri: str
    title: str
    text: str
    mime_type: str = "text/markdown"


def _example_folder() -> Path:
    """In an installed package the examples are part of it; in a checkout they are beside it."""
    package = Path(noetl.__file__).parent
    inside = package / "examples"
    return inside if inside.is_dir() else package.parent.parent / "examples"


@cache
def examples() -> dict[str, str]:
    """Name → text of the example playbooks."""
    found = {}
    for file in sorted(_example_folder().glob("*.yaml")):
        text = file.read_text("utf-8")
        if "\nkind: Playbook" in text:
            found[file.stem] = text
    return found


def resources(installed: Installed) -> list[GuidanceText]:
    """Everything that is listed."""
    found = [
        GuidanceText(LANGUAGE, "The language of playbooks in short", language_card(installed.kinds)),
        GuidanceText(PROBLEM_CODES, "The codes of problems, and their meanings", installed.topics[PROBLEMS]),
    ]
    for name, text in examples().items():
        title = text.splitlines()[0].removeprefix("# ").strip()
        found.append(GuidanceText(f"{EXAMPLES}{name}", title, text, "application/yaml"))
    return found


def read_resource(installed: Installed, uri: str) -> GuidanceText:
    """Raises NotFound."""
    if uri.startswith(f"{LANGUAGE}/") and (topic := uri.removeprefix(f"{LANGUAGE}/")) in installed.topics:
        return GuidanceText(uri, topic, installed.topics[topic])
    if uri.startswith(TOOL) and (kind := uri.removeprefix(TOOL)) in installed.kinds:
        document = kind_document(installed.kinds[kind], str(getattr(installed.tools.make(kind), "example", "")))
        return GuidanceText(uri, kind, msgspec.json.encode(document).decode(), "application/json")
    for each in resources(installed):
        if each.uri == uri:
            return each
    raise NotFound(f'there is no resource "{uri[:200]}"')


class PromptText(NamedTuple):
    """A prompt with one argument, which `{}` stands for."""

    name: str
    doc: str
    argument: str
    argument_doc: str
    text: str


PROMPTS: Final = (
    PromptText(
        "write_playbook",
        "Write a playbook that does something, checked, planned and tested",
        "goal",
        "what the playbook does",
        "Write a NoETL playbook that does this: {}\n\n"
        "1. Read describe_language, and describe_tool for each kind that you use.\n"
        "2. Write the YAML, and call check until it answers ok; apply its edits.\n"
        "3. Call plan, and tell me the effects before anything runs.\n"
        "4. Write tests with stubs for the usual case and for one failure, and call test until they pass.\n"
        "5. Show me the playbook and the tests. Run it only when I agree.",
    ),
    PromptText(
        "why_failed",
        "Find out why an execution failed, and how to continue it",
        "execution",
        "the id of the execution, or `last`",
        "The NoETL execution {} failed, or does not advance. Find out why.\n\n"
        "1. Call status, then why with the step that failed or waits, and logs with failed=true.\n"
        "2. Tell me the cause in one sentence, with the values that prove it.\n"
        "3. If the playbook is wrong: correct its text, check it, and compare with what_if. Propose a fork with "
        "dry_run, and tell me what it would keep and repeat. Fork only when I agree.",
    ),
)
