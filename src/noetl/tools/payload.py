"""Payloads of tools: decoding, JSONPath, references, and paths relative to the playbook."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from noetl.output import DATA_LEVELS_MAX, JSON, REF_FIELDS, NotJSON, clean_decoded
from noetl.tools.errors import InvalidInput

PATH_CHARS_MAX = 4_096
PathStep: TypeAlias = str | int | None  # a key, an index, or None for all items
ALL_ITEMS: Final = None

_STEP = re.compile(
    r"""
      \.(?P<name>[^\W\d][\w-]*)           # .name
    | \.\*                                # .*
    | \[\s*(?P<index>-?\d{1,18})\s*\]     # [0], [-1]
    | \[\s*\*\s*\]                        # [*]
    | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=256)
def parse(path: str) -> tuple[PathStep, ...]:
    """Raises InvalidInput."""
    if len(path) > PATH_CHARS_MAX:
        raise InvalidInput(f"path has {len(path):,} characters (limit PATH_CHARS_MAX: {PATH_CHARS_MAX:,})")
    if not path.startswith("$"):
        raise InvalidInput(f'path "{path}" must begin with "$", as in "$.rows[0].id"')
    steps: list[PathStep] = []
    position = 1
    while position < len(path):
        token = _STEP.match(path, position)
        if token is None:
            raise InvalidInput(_syntax_error(path, position))
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> PathStep:
    match token.lastgroup:
        case "name":
            return token["name"]
        case "index":
            return int(token["index"])
        case "single" | "double":
            return re.sub(r"\\(.)", r"\1", token[token.lastgroup])
        case _:
            return ALL_ITEMS


def _syntax_error(path: str, position: int) -> str:
    rest = path[position:]
    where = f'path "{path}", character {position + 1}'
    if rest.startswith(".."):
        return f"{where}: '..' is not supported; write every key of the path"
    if rest.startswith("[?"):
        return f"{where}: filters are not supported; resolve the rows and filter them in a template"
    if rest.startswith("[") and ":" in rest.partition("]")[0]:
        return f"{where}: slices are not supported here; use the field `slice`"
    return f"{where}: expected .name, ['name'], [0] or [*], found \"{rest[:20]}\""


def find(path: str, value: JSON) -> JSON:
    """The value at the path; if the path contains `*`, the list of all matches. Raises InvalidInput."""
    steps = parse(path)
    if ALL_ITEMS not in steps:
        for index, step in enumerate(steps):
            if not _has(value, step):
                raise InvalidInput(_missing(path, steps[:index], step, value))
            value = value[step]
        return value
    matches = [value]
    for step in steps:
        if step is ALL_ITEMS:
            matches = [inner for each in matches for inner in _items(each)]
        else:
            matches = [each[step] for each in matches if _has(each, step)]
    return matches


def _has(value: JSON, step: PathStep) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step is not None and -len(value) <= step < len(value)


def _items(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _missing(path: str, before: tuple[PathStep, ...], step: PathStep, value: JSON) -> str:
    where = "$" + "".join(f"[{each!r}]" for each in before)
    if isinstance(value, dict):
        known = ", ".join(list(value)[:8]) or "none"
        return f'path "{path}": {where} has no key {step!r}; its keys are: {known}'
    if isinstance(value, list):
        return f'path "{path}": {where} is a list of {len(value):,} items and has no {step!r}'
    return f'path "{path}": {where} is neither a list nor a mapping and has no {step!r}'


def absolute_path(label: str, path: str, folder: str | None) -> Path:
    """`path` itself, or inside the playbook's `folder`. Raises InvalidInput; `label` begins its message."""
    if "\0" in path:
        raise InvalidInput(f"{label} contains a NUL character, which is not allowed")
    if Path(path).is_absolute():
        return Path(path)
    if folder is None:
        raise InvalidInput(
            f'{label} "{path}" is relative, but this playbook was not read from a file; use an absolute path'
        )
    return Path(folder) / path


def path_inside(label: str, path: str, folder: str | None) -> Path:
    """The same, but a relative path must not leave the playbook's folder. Raises InvalidInput."""
    found = absolute_path(label, path, folder)
    if Path(path).is_absolute() or folder is None:
        return found
    if not found.resolve().is_relative_to(Path(folder).resolve()):
        raise InvalidInput(f'{label} "{path}" leads outside the playbook\'s directory; use an absolute path')
    return found


# Text encodings. Python's codecs include some that are not text encodings, or that yield lone surrogates.
_CHARSET = re.compile(
    r"utf[-_]?(8|16|32)([-_]?(le|be))?|(us[-_]?)?ascii|latin[-_]?1|iso[-_]8859[-_]\d+|windows[-_]\d+|cp\d+|koi8[-_][ru]"
    r"|shift[-_]jis|euc[-_](jp|kr)|gb(k|2312|18030)|big5",
    re.IGNORECASE,
)
_decode = msgspec.json.Decoder().decode
_FAST_LEVELS = 6  # enough for nearly all JSON; each further level doubles the size of the decoder


class InvalidJson(Exception):
    """The bytes are not JSON that an output can hold. The message continues a sentence: "the body …"."""


class JsonTooDeep(InvalidJson):
    """The bytes are JSON, but nested too deeply."""


def decode_json(body: bytes) -> JSON:
    """Raises InvalidJson.

    The first decoder has a fixed depth, so the result needs no check of its depth, which takes 20 µs a page.
    """
    try:
        try:
            return _shallow_decoder()(body)
        except msgspec.ValidationError:  # nested deeper, or invalid
            return clean_decoded(_decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidJson(f"is not valid JSON: {error}") from error
    except (RecursionError, NotJSON) as error:
        raise JsonTooDeep(f"is nested deeper than {DATA_LEVELS_MAX} levels") from error


@cache
def _shallow_decoder() -> Callable[[bytes], JSON]:
    scalar = str | int | float | bool | None
    shape: Any = scalar
    for _ in range(_FAST_LEVELS):
        shape = scalar | list[shape] | dict[str, shape]
    return msgspec.json.Decoder(shape).decode


def is_ref(value: JSON) -> bool:
    """Is this a Ref, the value of `output.ref`?"""
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and isinstance(value.get("locator"), dict)
        and isinstance(value.get("meta", {}), dict)
        and value.keys() <= set(REF_FIELDS)
    )


def media_type(content_type: str) -> str:
    """A content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    media = media_type(content_type)
    return media == "application/json" or media.endswith("+json") or media == "text/json"


def text_or_base64(body: bytes, charset: str | None = None) -> JSON:
    """A string if the bytes are text, otherwise {"base64": …}."""
    try:
        return body.decode(known_charset(charset))
    except (UnicodeError, LookupError):
        return base64_of(body)


def known_charset(charset: str | None) -> str:
    return charset if charset is not None and _CHARSET.fullmatch(charset) else "utf-8"


def base64_of(body: bytes) -> JSON:
    return {"base64": base64.b64encode(body).decode("ascii")}


def bytes_of_base64(value: JSON) -> bytes | None:
    """The bytes of {"base64": …}; None: the value has another form. Raises ValueError for invalid base64."""
    if type(value) is dict and list(value) == ["base64"]:
        return base64.b64decode(str(value["base64"]), validate=True)
    return None
