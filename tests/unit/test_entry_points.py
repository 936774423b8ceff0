"""The entry points are those of `importlib.metadata`, in the same order."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from noetl.entry_points import InstalledPoint, entry_points

PLAIN = "[console_scripts]\nx = y:z\n\n[noetl.tools]\n# a comment\nfirst = some.module:Tool\nsecond=os.path:join\n[other]\na = b\n"


def by_library(group: str) -> list[tuple[str, str, str]]:
    points = metadata.entry_points(group=group)
    return [
        (each.name, each.value, each.dist.name.replace("-", "_").replace(".", "_").lower())
        for each in points
        if each.dist
    ]


def found(group: str) -> list[tuple[str, str, str]]:
    return [(each.name, each.value, each.distribution) for each in entry_points(group)]


def install(folder: Path, name: str, text: str, info: str = "1.0.dist-info") -> None:
    place = folder / f"{name}-{info}"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (place / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (place / "entry_points.txt").write_text(text, "utf-8")


@pytest.mark.parametrize("group", ["noetl.tools", "console_scripts", "pytest11", "no.such.group"])
def test_they_are_those_of_the_library(group: str) -> None:
    assert found(group) == by_library(group)


def test_the_first_distribution_with_a_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "a", "My.Plugin", PLAIN)
    install(tmp_path / "b", "my_plugin", "[noetl.tools]\nhidden = m:T\n")
    install(tmp_path / "b", "Older", "[noetl.tools]\nfirst = another.module:Tool\n", "1.0-py3.11.egg-info")
    (tmp_path / "b" / "single-1.0.egg-info").write_text("Name: single\n", "utf-8")
    (tmp_path / "b" / "empty-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "missing")])
    assert found("noetl.tools") == by_library("noetl.tools")
    assert found("noetl.tools") == [
        ("first", "some.module:Tool", "my_plugin"),
        ("second", "os.path:join", "my_plugin"),
        ("first", "another.module:Tool", "older"),
    ]


def test_distributions_in_archives_and_eggs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "plugin.zip", "w") as archive:
        archive.writestr("zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.0\n")
        archive.writestr("zipped-1.0.dist-info/entry_points.txt", PLAIN)
    install(tmp_path / "old-1.0-py3.11.egg", "EGG", "[noetl.tools]\nlaid = m:T\n", "INFO")
    for place in (tmp_path / "old-1.0-py3.11.egg").iterdir():
        place.rename(place.with_name("EGG-INFO"))
    for name in ("plugin.zip", "old-1.0-py3.11.egg"):
        monkeypatch.setattr(sys, "path", [str(tmp_path / name)])
        assert [each[0] for each in found("noetl.tools")] == [each[0] for each in by_library("noetl.tools")] != []


def test_distributions_of_an_import_hook_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "hooked", PLAIN)

    class Hook(metadata.DistributionFinder):
        def find_distributions(self, context: object = None) -> list[metadata.Distribution]:
            del context
            return [metadata.Distribution.at(tmp_path / "hooked-1.0.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook()])
    assert ("first", "some.module:Tool", "hooked") in found("noetl.tools")
    assert found("noetl.tools") == by_library("noetl.tools")


def test_a_point_is_loaded_as_the_library_does() -> None:
    for value in ("os.path:join", "os", "collections:OrderedDict.fromkeys", "os.path : join [extra]"):
        assert InstalledPoint("x", value, "d").load() == metadata.EntryPoint("x", value, "g").load()
    with pytest.raises(ModuleNotFoundError):
        InstalledPoint("x", "no.such.module:T", "d").load()
    with pytest.raises(AttributeError):
        InstalledPoint("x", "os:no_such_name", "d").load()
