"""The modules beside a playbook file that its `python` tasks import, for a playbook that is sent to a server (D108)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from noetl.playbook.libs import KEY, LIBS_MAX, is_lib_name, python_sources, with_libs
from noetl.playbook.source import TEXT_BYTES_MAX, Document, Mapping, parse
from noetl.ports import PlaybookText
from noetl.session.errors import UsageError
from noetl.session.sources import digest_of, reason_of
from noetl.tool import Tools


class TextWithLibs(NamedTuple):
    text: str
    libs: tuple[str, ...] = ()  # the names of the modules that were added


def text_with_libs(document: Document, origin: str | None) -> TextWithLibs:
    """The text that a server gets: that of the file, with the modules beside it that its code imports.

    A text with its own `libs` stays as it is. Raises UsageError.
    """
    root = document.root
    if origin is None or not isinstance(root, Mapping) or KEY in root.entries:
        return TextWithLibs(document.text)
    libs = dict(sorted(_collected(root, Path(origin).parent).items()))
    if not libs:
        return TextWithLibs(document.text)
    text = with_libs(document.text, libs)
    if text is None:
        names = ", ".join(libs)
        raise UsageError(
            f"{document.file}: the modules that it imports ({names}) cannot be added at the end of its text: "
            f"let the file end with a line break and without `...`, or write them under `{KEY}` yourself"
        )
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise UsageError(
            f"{document.file}: with the {len(libs)} modules that it imports it has {len(text.encode()):,} bytes "
            f"(limit TEXT_BYTES_MAX: {TEXT_BYTES_MAX:,}); put them into a package, and list it under `requirements`"
        )
    return TextWithLibs(text, tuple(libs))


def _collected(root: Mapping, folder: Path) -> dict[str, str]:
    """The files of the playbook's folder that are a part of its code, by name. Raises UsageError."""
    tool = Tools.installed().class_of("python")
    libs: dict[str, str] = {}
    for key, value in python_sources(root):
        if key == "script" and Path(value).is_absolute():  # it is on the worker
            continue
        for path in tool.code_files({key: value}, str(folder)).paths if tool is not None else ():
            name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
            if name in libs or not is_lib_name(name) or not path.is_file():
                continue
            if len(libs) >= LIBS_MAX:
                raise UsageError(
                    f"{folder}: the playbook imports more than {LIBS_MAX} modules beside it (limit LIBS_MAX): "
                    "put them into a package, and list it under `requirements`"
                )
            libs[name] = _read(path)
    return libs


def _read(path: Path) -> str:
    """Raises UsageError."""
    try:
        with path.open("rb") as stream:
            text = stream.read(TEXT_BYTES_MAX + 1).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: it is not encoded in UTF-8") from error
    return text.replace("\r\n", "\n")


def parsed_with_libs(document: Document, origin: str | None) -> Document:
    """The same, parsed again if modules were added: all positions of the file stay valid."""
    found = text_with_libs(document, origin)
    return document if not found.libs else parse(found.text, document.file).document


def registered_with_libs(text: PlaybookText) -> tuple[PlaybookText, tuple[str, ...]]:
    """What a server stores, and the names of the modules that were added. Raises UsageError."""
    found = text_with_libs(parse(text.text, text.origin or text.path).document, text.origin)
    return text._replace(text=found.text, digest=digest_of(found.text)), found.libs
