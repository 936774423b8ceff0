"""Serves the web UI: the files that `make ui` or the build of the wheel has put into the folder `static`.

Only names that exist in that folder are served, so no path can lead outside of it. Any other path is a page
inside of the UI and gets index.html.
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
from noetl.server.errors import ApiError
from noetl.server.params import ContextParam

HOME: Final = "/ui/"
_INDEX: Final = "index.html"
_HASHED: Final = "assets/"  # file names here contain a digest, so the content never changes
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))  # the smaller one first
_OPTIONS: Final[dict[str, Any]] = {"opt": {SCOPE: PUBLIC}, "include_in_schema": False}
_READ: Final = [HttpMethod.GET, HttpMethod.HEAD]
# Nothing is loaded from other sites. The editor sets inline styles; images of results are blobs.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {"Content-Security-Policy": _POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
_IMMUTABLE: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_REVALIDATE: Final = {"Cache-Control": "no-cache"}
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
  <p>The API works without the UI: see <code>/schema/openapi.json</code>.</p>
</main>
"""


class Asset(NamedTuple):
    """A file in the form in which it is sent."""

    body: bytes
    kind: str
    etag: str  # its digest
    encoded: dict[str, bytes]  # the body by content encoding


class UiBundle:
    """All files of the UI. They are read once, and again after a new build."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._assets: dict[str, Asset] = {}
        self._built = 0  # modification time of index.html; 0: it does not exist

    def assets(self) -> dict[str, Asset]:
        """Assets by their relative names; empty when the UI is not built."""
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
    endings = tuple(ending for _, ending in _ENCODINGS)
    for name, path in files.items():
        if name.endswith(endings):
            continue
        body = path.read_bytes()
        encoded = {
            encoding: files[name + ending].read_bytes() for encoding, ending in _ENCODINGS if name + ending in files
        }
        yield name, Asset(body, _kind(name), hashlib.sha256(body).hexdigest()[:32], encoded)


def _kind(name: str) -> str:
    """Some machines register another type for JavaScript, but browsers run modules of this type only."""
    if name.endswith((".js", ".mjs")):
        return "text/javascript"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@cache
def bundle_in(folder: Path) -> UiBundle:
    return UiBundle(folder)


@route("/", http_method=_READ, **_OPTIONS)
async def home() -> Response[bytes]:
    return Response(b"", status_code=307, headers={"Location": HOME, **_REVALIDATE})


@route(["/ui", "/ui/{name:path}"], http_method=_READ, **_OPTIONS)
async def ui(
    request: Request[Any, Any, Any],
    context: ContextParam,
    name: Annotated[str, PathParameter(description="a file, or a page inside of the UI")] = "/",
) -> Response[bytes]:
    return asset_response(bundle_in(context.settings.ui).assets(), name.lstrip("/"), request.headers)


@route("/llms.txt", http_method=_READ, **_OPTIONS)
async def language_text(context: ContextParam) -> Response[bytes]:
    """The language on one page, with the tools of this server, for programs that write playbooks."""
    from noetl.views.language_card import language_card

    body = await context.cpu_pool.run(language_card, context.services.kinds)
    return Response(body.encode(), media_type="text/plain", headers=_REVALIDATE)


def asset_response(assets: dict[str, Asset], name: str, request_headers: Headers) -> Response[bytes]:
    """Raises ApiError when there is no such file."""
    if not assets:
        return Response(
            _NOT_BUILT.encode(), status_code=503, media_type="text/html",
            headers={**_HEADERS, "Cache-Control": "no-store"},
        )  # fmt: skip
    asset = assets.get(name)
    if asset is None:
        if name.startswith(_HASHED) or "." in name.rpartition("/")[2]:
            raise ApiError(404, "not-found", "the UI has no such file: reload the page, there may be a newer version")
        name, asset = _INDEX, assets[_INDEX]
    headers = {
        **_HEADERS,
        **(_IMMUTABLE if name.startswith(_HASHED) else _REVALIDATE),
        "ETag": f'"{asset.etag}"',
        "Vary": "Accept-Encoding",
    }
    if headers["ETag"] in request_headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    body = asset.body
    accepted = _accepted(request_headers.get("accept-encoding", ""))
    for encoding, encoded in asset.encoded.items():
        if encoding in accepted:
            body, headers["Content-Encoding"] = encoded, encoding
            break
    return Response(body, media_type=asset.kind, headers=headers)


def _accepted(header: str) -> set[str]:
    """The encodings that an Accept-Encoding header allows; their order of preference is ignored."""
    parts = (each.replace(" ", "").lower().partition(";q=") for each in header.split(","))
    return {name for name, has_weight, weight in parts if not has_weight or weight.strip("0.")}


ROUTES = [home, ui, language_text]
