"""The web UI as the server gives it out: files that `make ui` or the build of the wheel has put beside this.

Only names that were found there are answered, so no path leads anywhere else. What is no file is a place
inside of the UI, and gets its first page.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from litestar import HttpMethod, Request, Response, route
from litestar.datastructures import Headers
from litestar.params import PathParameter

from noetl.server.auth import PUBLIC, SCOPE
from noetl.server.errors import Refused
from noetl.server.params import RoomGiven

HOME: Final = "/ui/"
_INDEX: Final = "index.html"
_HASHED: Final = "assets/"  # what lies here has a digest in its name, and never changes
_PACKED: Final = (("br", ".br"), ("gzip", ".gz"))  # the smaller one first
_SHOWN: Final[dict[str, Any]] = {"opt": {SCOPE: PUBLIC}, "include_in_schema": False}
_READ: Final = [HttpMethod.GET, HttpMethod.HEAD]
# Nothing is fetched from elsewhere. The editor sets styles while it runs; pictures of results are blobs.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"Content-Security-Policy": _POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
_UNCHANGED: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_ASK_AGAIN: Final = {"Cache-Control": "no-cache"}
_NOT_BUILT: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>NoETL</title>
<style>
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
  main { max-width: 36rem; margin: 20vh auto 0; padding: 0 1rem }
</style>
<main>
  <h1>The UI is not built yet</h1>
  <p>This server runs from a checkout. Build the UI there, then load this page again:</p>
  <pre><code>make ui</code></pre>
  <p>The API works without it: <a href="/schema/openapi.json">here</a> is what it can do.</p>
</main>
"""


class Asset(NamedTuple):
    """A file, as it is sent."""

    body: bytes
    kind: str
    tag: str  # its digest
    packed: dict[str, bytes]  # the same by encodings


class Bundle:
    """All files of the UI, read once, and again when it was built anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._assets: dict[str, Asset] = {}
        self._built = 0  # when the first page was written; 0: there is none

    def assets(self) -> dict[str, Asset]:
        """By their names below the folder; none when the UI is not built."""
        try:
            built = (self._folder / _INDEX).stat().st_mtime_ns
        except OSError:
            built = 0
        if built != self._built:
            self._assets = dict(_read(self._folder)) if built else {}
            self._built = built
        return self._assets


def _read(folder: Path) -> Iterator[tuple[str, Asset]]:
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    endings = tuple(ending for _, ending in _PACKED)
    for name, path in files.items():
        if name.endswith(endings):
            continue
        body = path.read_bytes()
        packed = {
            encoding: files[name + ending].read_bytes()
            for encoding, ending in _PACKED
            if name + ending in files
        }
        yield name, Asset(body, _kind(name), hashlib.sha256(body).hexdigest()[:32], packed)


def _kind(name: str) -> str:
    """Whatever this machine believes of JavaScript, browsers run it only under its own name."""
    if name.endswith((".js", ".mjs")):
        return "text/javascript"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@cache
def bundle_in(folder: Path) -> Bundle:
    return Bundle(folder)


@route("/", http_method=_READ, **_SHOWN)
async def home() -> Response[bytes]:
    return Response(b"", status_code=307, headers={"Location": HOME, **_ASK_AGAIN})


@route(["/ui", "/ui/{name:path}"], http_method=_READ, **_SHOWN)
async def ui(
    request: Request[Any, Any, Any],
    room: RoomGiven,
    name: Annotated[str, PathParameter(description="a file, or a place inside of the UI")] = "/",
) -> Response[bytes]:
    return answer(bundle_in(room.settings.ui).assets(), name.lstrip("/"), request.headers)


def answer(assets: dict[str, Asset], name: str, asked: Headers) -> Response[bytes]:
    """Raises Refused when there is no such file."""
    if not assets:
        return Response(
            _NOT_BUILT.encode(), status_code=503, media_type="text/html",
            headers={**_HEADERS, "Cache-Control": "no-store"},
        )  # fmt: skip
    asset = assets.get(name)
    if asset is None:
        if name.startswith(_HASHED) or "." in name.rpartition("/")[2]:
            raise Refused(404, "not-found", "the UI has no such file: load the page again, it may be newer")
        name, asset = _INDEX, assets[_INDEX]
    headers = {
        **_HEADERS,
        **(_UNCHANGED if name.startswith(_HASHED) else _ASK_AGAIN),
        "ETag": f'"{asset.tag}"',
        "Vary": "Accept-Encoding",
    }
    if headers["ETag"] in (asked.get("if-none-match", "")):
        return Response(b"", status_code=304, headers=headers)
    body = asset.body
    accepted = _accepted(asked.get("accept-encoding", ""))
    for encoding, packed in asset.packed.items():
        if encoding in accepted:
            body, headers["Content-Encoding"] = packed, encoding
            break
    return Response(body, media_type=asset.kind, headers=headers)


def _accepted(said: str) -> set[str]:
    """Those that are named and not excluded; which of them is liked best does not matter to us."""
    named = (each.replace(" ", "").lower().partition(";q=") for each in said.split(","))
    return {name for name, weighed, weight in named if not weighed or weight.strip("0.")}


ROUTES = [home, ui]
