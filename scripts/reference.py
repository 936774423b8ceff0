"""Writes the generated files: those of docs/reference and of `generated`; `--check` only lists the outdated ones.

The hand-written sentences are in docs/reference/_parts, one file for each topic. They name decisions, as in
(D35), for the readers of the code; the pages omit these numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from noetl.checks.checker import check
from noetl.errors import PlaybookError, Problem
from noetl.net.scopes import EVENT_FIELDS, PLACES, READABLE, SEES_TASKS, SUBJECT
from noetl.output import ERROR_FIELDS, META_FIELDS, OUTPUT_FIELDS, REF_FIELDS
from noetl.playbook.dialects.notes import NOTES
from noetl.playbook.kinds import Kinds
from noetl.playbook.language import SCOPES, language
from noetl.playbook.migrate import migrate
from noetl.playbook.problems import CODES, LEVELS, ProblemCode
from noetl.playbook.shapes import (
    KeyShape,
    KindShape,
    ListShape,
    MapShape,
    RecordShape,
    Shape,
    UnionShape,
)
from noetl.template import limits
from noetl.template.compile import FILTERS, FUNCTIONS, METHODS, OMITTED, TESTS
from noetl.template.registry import Builtin
from noetl.testing.scenario import played
from noetl.tool import Tools
from noetl.views.language_card import language_card
from noetl.views.tool_kinds import alternatives, as_text, mapping, output_fields, sentences, unfolded
from scripts import monitoring, reference_api, reference_cli, reference_events, reference_roles
from scripts.reference_prose import prose, slug, table

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs/reference"
PARTS = PAGES / "_parts"
EXAMPLES = ROOT / "tests/fixtures/problems"
CARD = "../llms.txt"  # for programs that write playbooks
NOTE = "<!-- Written by scripts/reference.py from the code and docs/reference/_parts; do not edit. -->"
FILE = "playbook.yaml"  # the name of every example, as a message shows it
# The parts of the language page, in order; `<!-- keys: step, arc -->` in a part becomes tables of keys.
THEMES = (
    "language", "documents", "inputs", "steps", "loops", "pipeline", "templates", "results", "credentials",
    "triggers", "notifications", "migration",
)  # fmt: skip
KEYS = re.compile(r"<!-- keys: (.+) -->")
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
DECISIONS = re.compile(r"\s\(D\d+a?(?:, D\d+a?)*\)")
NO_EXAMPLE = {
    "yaml-encoding": "For example, a file saved as Latin-1, or one that contains a control character.",
    "yaml-too-large": "For example, a file with more than a million characters.",
    "yaml-too-many-values": "For example, a list of 200,000 numbers.",
}


@cache
def kinds() -> Kinds:
    return Tools.built_in().kinds()


def part(name: str) -> str:
    return (PARTS / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def pages() -> dict[str, str]:
    """All generated pages, by file name."""
    made = {
        "language.md": language_page(),
        "execution.md": execution_page(),
        "scopes.md": scopes_page(),
        "filters.md": filters_page(),
        "tools.md": tools_page(),
        "problems.md": problems_page(),
        "migration.md": migration_page(),
        "machines.md": machines_page(),
        "cli.md": reference_cli.commands_page(part("exit_codes")),
        "config.md": reference_cli.settings_page(part("config")),
        "events.md": reference_events.page(part("events_page"), part("facts"), part("derived")),
        "api.md": reference_api.page(part("api")),
    }
    return {**{name: noted(text) for name, text in made.items()}, CARD: language_card(kinds())}


def noted(text: str) -> str:
    """Add the note below the title, and omit the numbers of decisions outside code."""
    parts = CODE.split(text)
    parts[::2] = [DECISIONS.sub("", part) for part in parts[::2]]
    title, _, rest = "".join(parts).rstrip().partition("\n")
    return f"{title}\n\n{NOTE}\n{rest}\n"


def generated() -> dict[Path, str]:
    """All generated files with their content: the pages, the table of roles, and the files of monitoring."""
    own = {(PAGES / name).resolve(): text for name, text in pages().items()}
    return own | {reference_roles.SECURITY: reference_roles.current()} | monitoring.files()


def stale() -> list[str]:
    """The outdated files, relative to the root of the project."""
    return [
        str(file.relative_to(ROOT))
        for file, text in generated().items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]


# The language: records and their keys


def records(shape: Shape, depth: int = 0) -> Iterator[RecordShape]:
    """All records of the language, once for each place; for tasks, the keys that all kinds share.

    `depth` counts the tasks around the shape: a choose contains tasks again.
    """
    match shape:
        case RecordShape():
            yield shape
            for name, key in shape.keys.items():
                if not is_of_kind(name, key):
                    yield from records(key.shape, depth)
        case KindShape("task", doc, _, unknown, others):
            yield from records(unknown._replace(doc=doc), depth)
            for record in others.values() if depth < 1 else ():
                yield from records(record, depth + 1)
        case KindShape():
            for record in shape.kinds.values():
                yield from records(record, depth)
        case MapShape(of) | ListShape(of):
            yield from records(of, depth)
        case UnionShape(shapes):
            for each in shapes:
                yield from records(each, depth)


def is_of_kind(name: str, key: KeyShape) -> bool:
    """Whether it is a part of a spec that applies to one tool kind only (D63)."""
    return name in kinds() and isinstance(key.shape, RecordShape) and key.shape.title == f"spec.{name}"


def name_of(record: RecordShape) -> str:
    """The title of a record, made unique if two records share one."""
    then = record.keys.get("then")
    inner = then.shape if record.title == "else" and then else record
    if isinstance(inner, RecordShape) and "allow" in inner.keys:
        return f"admission {record.title}"
    if record.title == "limits" and "tokens" not in record.keys:
        return "step limits"
    return record.title


def language_page() -> str:
    known = {name_of(record): record for record in records(language(kinds()))}
    text = "\n\n".join(["# Language", *map(part, THEMES)])
    placed = [name for names in KEYS.findall(text) for name in names.split(", ")]
    assert sorted(placed) == sorted(known), set(placed) ^ set(known)
    text = KEYS.sub(lambda found: "\n".join(key_tables(found[1].split(", "), known)), text)
    return text.replace("<!-- retired keys -->", "\n".join(retired_table(known)))


def key_tables(names: list[str], known: dict[str, RecordShape]) -> Iterator[str]:
    for name in names:
        yield from (f"### {name}", "", prose(known[name].doc), "", *key_table(known[name].keys))
        if name != names[-1]:
            yield ""


def key_table(keys: Mapping[str, KeyShape], link: str = "") -> list[str]:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    of_kinds = [name for name, key in keys.items() if is_of_kind(name, key)]
    for name, key in keys.items():
        if name in of_kinds:
            continue
        words = f"`{name}`" + (" (required)" if key.required else "")
        default = "" if key.default is None else f"`{as_text(key.default)}`"
        example = "" if key.example is None else f" – for example `{key.example}`"
        value = " or ".join(dict.fromkeys(alternatives(key.shape, lambda shape: linked(shape, link))))
        lines.append(f"| {words} | {value} | {default} | {prose(key.doc)}{example} |")
    if of_kinds:
        lines.append("| a tool kind | [a mapping](tools.md) | | applies to tasks of that kind only |")
    return lines


def linked(shape: Shape, link: str) -> str:
    """A link to the table of a mapping whose keys are known."""
    match shape:
        case RecordShape() if name_of(shape) in named():
            return f"[{name_of(shape)}]({link}#{slug(name_of(shape))})"
        case KindShape("task"):
            return f"[task]({link}#task)"
        case KindShape("trigger"):
            return f"[trigger]({link}#triggers)"
        case KindShape(title):
            return f"[{title}]({link}#credentials)"
    return mapping(shape)


@cache
def named() -> frozenset[str]:
    """The records that have a table; those of tools have none."""
    return frozenset(name_of(record) for record in records(language(kinds())))


def retired_table(known: dict[str, RecordShape]) -> list[str]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for name, record in known.items():
        for key, (code, message, _) in record.retired.items():
            if code != "missing-then":
                places.setdefault((key, code, message), []).append(f"[{name}](#{slug(name)})")
    lines = ["| key | where | problem | message |", "|---|---|---|---|"]
    for (key, code, message), where in sorted(places.items()):
        lines.append(f"| `{key}` | {', '.join(where)} | [{code}](problems.md#{code}) | {prose(message)} |")
    return lines


def execution_page() -> str:
    lines = ["# Execution", "", part("execution"), "", "## Events", "", part("events"), ""]
    lines += [
        "## Commands on an execution",
        "",
        part("commands"),
        "",
        "## Small print",
        "",
        part("small_print"),
    ]
    return "\n".join(lines)


# Scopes


def scopes_page() -> str:
    lines = ["# Scopes", "", part("scopes"), "", "## Availability", ""]
    lines += ["| place | " + " | ".join(f"`{name}`" for name in SCOPES) + " | tasks by name |"]
    lines += ["|---" * (len(SCOPES) + 2) + "|"]
    for place, words in PLACES.items():
        cells = ["●" if name in READABLE[place] else "" for name in SCOPES]
        lines.append(f"| {words} | {' | '.join(cells)} | {'●' if place in SEES_TASKS else ''} |")
    lines += ["", "## Meaning", "", "| scope | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {words} |" for name, words in SCOPES.items()]
    lines += [
        "",
        "## Fixed fields",
        "",
        part("fields"),
        "",
    ]
    own = ", ".join(f"`output.{kind.output}` ({name})" for name, kind in kinds().items() if kind.output)
    for words, fields in (
        ("`output`", OUTPUT_FIELDS),
        ("`output.error`", ERROR_FIELDS),
        ("`output.meta`", META_FIELDS),
        ("`event`", EVENT_FIELDS),
        ("a Ref", REF_FIELDS),
    ):
        lines.append(f"- {words} has {', '.join(f'`{field}`' for field in fields)}.")
    lines.append("- The `output` of a step with a loop also has `failed`: a list of `index`, `item` and `error`.")
    lines += [f"- Some tools add their own part: {own}.", "", "## Notifications", "", part("notification_scopes"), ""]
    for name, known in SUBJECT.items():
        lines.append(f"- `{name}` has {', '.join(f'`{field}`' for field in known)}.")
    return "\n".join(lines)


# Filters


def filters_page() -> str:
    lines = ["# Filters, tests, functions", "", part("filters"), ""]
    for heading, known in (
        ("Filters", FILTERS),
        ("Tests", TESTS),
        ("Functions", FUNCTIONS),
        ("Methods", METHODS),
    ):
        lines += [f"## {heading}", "", *entries(known), ""]
    lines += ["## Jinja2 features that NoETL does not support", ""]
    lines += [f"- `{name}`: {prose(reason)}." for name, reason in OMITTED.items()]
    values = {name: f"{value:,}" for name, value in vars(limits).items() if name.endswith("_MAX")}
    lines += ["", "## Limits", "", part("limits").format(**values)]
    return "\n".join(lines)


def entries(table: Mapping[str, Builtin]) -> Iterator[str]:
    """One line for each entry, with all its names."""
    names: dict[str, list[str]] = {}
    for name, entry in table.items():
        names.setdefault(entry.signature, []).append(name)
    for also in names.values():
        entry = table[also[0]]
        written, gives = entry.example
        words = ", ".join(f"`{name}`" for name in also)
        doc = entry.doc if entry.doc.endswith((".", "?")) else f"{entry.doc}."
        yield f"- {words}: {prose(doc)} `{entry.signature}`, for example `{written}` gives `{gives}`."


# Tools


def tools_page() -> str:
    lines = ["# Tools", "", part("tools"), ""]
    for name, kind in kinds().items():
        lines += [f"## {name}", "", unfolded(kind.doc), ""]
        if kind.fields.keys:
            lines += [*key_table(kind.fields.keys, "language.md"), ""]
        lines += [f"- {sentence}" for sentence in sentences(kind)]
        if kind.knobs.keys:
            lines += ["", "Options under `spec`:", "", *key_table(kind.knobs.keys, "language.md")]
        if kind.output_fields is not None:
            rows = ((f"`{each.name}`", each.value, prose(each.meaning)) for each in output_fields(kind))
            lines += ["", "Its own part of the output:", "", *table(("field", "value", "meaning"), rows)]
        tool = Tools.built_in().make(name)
        if tool is not None and tool.example:
            lines += ["", "Example:", "", "```yaml", tool.example.rstrip("\n"), "```"]
        lines.append("")
    return "\n".join(lines)


# Problems


def machines_page() -> str:
    """The two machines, and which fact follows which for runs and frames, according to the scenarios."""
    lines = ["# The two machines", "", part("machines")]
    for title, about in (("A run", "run"), ("A frame", "frame")):
        lines += ["", f"## {title}", "", f"Possible sequences of the facts about {title.lower()}:", ""]
        lines += table(("fact", "next fact"), lives(about))
    return "\n".join(lines)


def lives(about: str) -> Iterator[tuple[str, str]]:
    """Which fact follows which for one run or frame, over all scenarios."""
    follows: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests/scenarios").rglob("*.txt")):
        last: dict[str, str] = {}
        for event in played(path.read_text(encoding="utf-8"), kinds()).log:
            name, subject = reference_events.tag(type(event.fact)), getattr(event.fact, about, None)
            if isinstance(subject, str):
                follows.setdefault(last.get(subject, ""), set()).add(name)
                last[subject] = name
    for name in sorted(follows):
        then = ", ".join(f"[{each}](events.md#{slug(each)})" for each in sorted(follows[name]))
        yield f"`{name}`" if name else "(start)", then


def migration_page() -> str:
    lines = ["# Migration", "", part("migrating"), "", "## Notes", ""]
    lines += [f"- `{code}`: {meaning}" for code, meaning in sorted(NOTES.items())]
    return "\n".join(lines)


def problems_page() -> str:
    lines = ["# Problems", "", part("problems"), ""]
    for level, words in LEVELS.items():
        lines += [f"## {level} {words}", ""]
        for name, code in CODES.items():
            if code.level == level:
                lines += [f"### {name}", "", *problem_lines(name, code), ""]
    return "\n".join(lines)


def problem_lines(name: str, code: ProblemCode) -> Iterator[str]:
    yield f"**{code.severity.capitalize()}.** {prose(code.meaning)}"
    yield ""
    if name in NO_EXAMPLE:
        yield NO_EXAMPLE[name]
    else:
        # The first line contains the expectation of a test.
        text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").split("\n", 1)[1]
        problem = problem_of(name, text)
        mark = f' hl_lines="{problem.at.line}"' if problem else ""
        yield from (f"```yaml{mark}", text.rstrip("\n"), "```")
        if problem:
            yield from ("", "```text", *shown(problem, text), "```")
    yield ""
    yield f"**How to fix it:** {prose(code.fix)}"


def problem_of(name: str, text: str) -> Problem | None:
    """The problem that the example illustrates."""
    try:
        problems = check(text, kinds(), FILE).problems
        if name == "mixed-dialects":
            migrate(text, FILE)
    except PlaybookError as refused:
        problems = refused.problems
    return next((each for each in problems if each.code == name), None)


def shown(problem: Problem, text: str) -> list[str]:
    """A problem as `noetl check` prints it: position, message, the line with a caret, the fix."""
    line = text.split("\n")[problem.at.line - 1]
    lines = [str(problem), f"  {line}", f"  {' ' * (problem.at.column - 1)}^"]
    if problem.fix:
        lines += [f"  fix: {problem.fix}".replace("\n", "\n       ")]
    return lines + [f"  {each.at.line}:{each.at.column}: {each.note}" for each in problem.related]


def main(arguments: list[str]) -> int:
    old = stale()
    if "--check" in arguments:
        for name in old:
            print(f"{name} is out of date: run `make docs`")
        return 1 if old else 0
    for name in old:
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(generated()[ROOT / name], encoding="utf-8")
        print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
