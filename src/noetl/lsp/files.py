"""The files around an open text: its tests, and the playbooks that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Final
from urllib.parse import unquote, urlsplit

from noetl.editor.analysis import Analysis
from noetl.errors import PlaybookError, Problem
from noetl.playbook.source import Scalar
from noetl.replay.programs import ReplayPrograms
from noetl.replay.suite import SUFFIXES, read_suite

_MARK: Final = re.compile(r"^(apiVersion *: *[\"']?noetl\.io/|kind *: *[\"']?Playbook\b|workflow *:)", re.MULTILINE)


def path_of(uri: str) -> FilePath | None:
    """The path of a file; None for other texts, such as one that is not saved."""
    parts = urlsplit(uri)
    return FilePath(unquote(parts.path)) if parts.scheme == "file" and parts.path else None


def is_suite(uri: str) -> bool:
    return uri.endswith(SUFFIXES)


def is_playbook(known: Analysis) -> bool:
    """Other YAML files of a project have no problems."""
    return _MARK.search(known.text) is not None


def suite_problems(uri: str, text: str) -> Iterable[Problem]:
    try:
        read_suite(path_of(uri) or FilePath("test"), text)
    except PlaybookError as error:
        return error.problems
    return ()


def beside(uri: str) -> str | None:
    """The test file of a playbook: beside it, or in the folder `tests`."""
    file = path_of(uri)
    if file is None:
        return None
    names = [folder / f"{file.stem}{suffix}" for folder in (file.parent, file.parent / "tests") for suffix in SUFFIXES]
    found = next((each for each in names if each.is_file()), None)
    return found.as_uri() if found is not None else None


def child_file(uri: str, known: Analysis, offset: int) -> str | None:
    """The file of the child playbook whose path is at the offset."""
    file, playbook = path_of(uri), known.checked.playbook
    if file is None or playbook is None:
        return None
    for owner in playbook.pipelines:
        for task in owner.tasks:
            tree = known.document.find((*task.at, "path"))
            if task.kind == "playbook" and isinstance(tree, Scalar) and tree.start <= offset <= tree.end:
                found = ReplayPrograms(known.kinds).beside(file.parent, str(tree.value))
                return found.resolve().as_uri() if found is not None else None
    return None
