"""Commands and their options, as typer reads them; what they do is tested beside, processes in tests/e2e."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperGroup

from noetl.cli.app import PANELS, app

EXPLAIN = {
    "step": None, "graph": None, "task": None, "output": None, "dialect": "canonical", "format": "auto", "db": None, "server": None,
}  # fmt: skip


def group() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def test_there_are_commands_for_playbooks_for_running_them_and_for_looking_at_what_ran() -> None:
    assert " ".join(group().commands) == (
        "init new check fmt explain test lsp mcp migrate schema tools run debug resume retry pause cancel signal fork backfill list show events logs output state"
        " replay audit record what-if diff label delete register saved server worker nats-users workers pools ui up doctor audit-log gc import playbooks triggers context token secrets"
    )


def test_the_paragraphs_of_a_help_fit_terminals_of_any_width() -> None:
    for name, command in group().commands.items():
        prose = (command.help or "").partition("\b")[0]
        assert all("\n" not in paragraph for paragraph in prose.strip().split("\n\n")), name


def test_the_help_groups_all_commands_by_purpose() -> None:
    panels = [str(getattr(each, "rich_help_panel", "")) for each in group().commands.values()]
    assert list(dict.fromkeys(panels)) == list(PANELS)


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        (
            "explain a.yaml",
            {**EXPLAIN, "file": "a.yaml"},
        ),
        (
            "explain - --graph svg -o x.svg --dialect auto",
            {**EXPLAIN, "file": "-", "graph": "svg", "output": "x.svg", "dialect": "auto"},
        ),
        (
            "explain last fetch --db a.db --format json",
            {**EXPLAIN, "file": "last", "step": "fetch", "db": "a.db", "format": "json"},
        ),
        (
            "migrate a.yaml --write --exact --annotate",
            {
                "file": "a.yaml",
                "output": None,
                "write": True,
                "diff": False,
                "exact": True,
                "annotate": True,
                "keep_layout": False,
                "report": False,
            },
        ),
        ("schema --output s.json", {"output": "s.json"}),
    ],
)
def test_command_lines_are_read(line: str, parameters: dict[str, object]) -> None:
    command, *arguments = line.split()
    assert group().commands[command].make_context(command, arguments).params == parameters


def test_every_command_teaches_by_two_or_three_examples() -> None:
    for name, command in group().commands.items():
        examples = (command.help or "").split("Examples:")[1].strip().splitlines()
        assert (name, 2 <= len(examples) <= 3) == (name, True)
        assert f"{examples[0].strip()} ".startswith(f"noetl {name} ")
