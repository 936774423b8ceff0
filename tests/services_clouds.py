"""Stand-ins for Google Cloud Storage and Azure Blob Storage: the requests that obstore makes, kept in memory."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from threading import Event, Thread
from urllib.parse import unquote
from xml.sax.saxutils import escape

from aiohttp import web

from tests.ports import free_port

DATE = "2026-01-01T00:00:00Z"


class CloudServer:
    """Both services: paths below /azure/ are those of Azure."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str]] = {}  # "bucket/path" → content and type
        self.parts: dict[str, dict[str, bytes]] = {}
        self.authorized: list[str] = []  # the headers that prove who asks

    def add(self, key: str, body: bytes, content_type: str) -> None:
        self.objects[key] = (body, content_type)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.authorized.append(request.headers.get("Authorization", "") or request.query.get("sig", ""))
        path = unquote(request.rel_url.raw_path.lstrip("/"))
        azure = path.startswith("azure/")
        key = path.removeprefix("azure/").strip("/")
        body = await request.read()
        query = request.query
        if query.get("comp") == "batch":
            return self._batch(body, request.headers["Content-Type"])
        if query.get("comp") == "list" or "list-type" in query:
            return self._list(key, query.get("prefix", ""), azure=azure)
        if query.get("comp") in ("block", "blocklist") or "uploads" in query or "uploadId" in query:
            return self._multipart(request, key, body)
        match request.method:
            case "PUT":
                return self._put(request, key, body)
            case "GET" | "HEAD":
                return self._get(request, key)
            case "DELETE":
                return web.Response(status=(202 if azure else 204) if self.objects.pop(key, None) else 404)
        return web.Response(status=405)

    def _put(self, request: web.Request, key: str, body: bytes) -> web.Response:
        headers = request.headers
        source = headers.get("x-goog-copy-source") or headers.get("x-ms-copy-source")
        if source is not None:
            found = self.objects[unquote(source.partition("/azure/")[2] or source.lstrip("/")).partition("?")[0]]
            self.objects[key] = found
            return web.Response(status=202, headers=_headers(found[0]))
        create = headers.get("x-goog-if-generation-match") == "0" or headers.get("If-None-Match") == "*"
        if create and key in self.objects:
            return web.Response(status=412 if "x-goog-if-generation-match" in headers else 409)
        self.add(key, body, headers.get("Content-Type", "application/octet-stream"))
        return web.Response(status=201, headers=_headers(body))

    def _get(self, request: web.Request, key: str) -> web.Response:
        if key not in self.objects:
            return web.Response(status=404)
        body, content_type = self.objects[key]
        if request.headers.get("If-Match", _etag(body)) != _etag(body):
            return web.Response(status=412)
        headers = {**_headers(body), "Content-Type": content_type}
        if wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", "")):
            first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            return web.Response(status=206, body=body[first : last + 1], headers=headers)
        return web.Response(body=body, headers=headers)

    def _list(self, bucket: str, prefix: str, *, azure: bool) -> web.Response:
        keys = [key.removeprefix(f"{bucket}/") for key in sorted(self.objects) if key.startswith(f"{bucket}/{prefix}")]
        rows = [(escape(key), self.objects[f"{bucket}/{key}"][0]) for key in keys]
        if azure:
            blobs = "".join(
                f"<Blob><Name>{key}</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
                f"<Content-Length>{len(body)}</Content-Length><Content-Type>x</Content-Type><Etag>{_etag(body)}</Etag>"
                "</Properties></Blob>"
                for key, body in rows
            )
            return _xml(f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>")
        found = "".join(
            f"<Contents><Key>{key}</Key><LastModified>{DATE}</LastModified><ETag>{escape(_etag(body))}</ETag>"
            f"<Size>{len(body)}</Size></Contents>"
            for key, body in rows
        )
        return _xml(f"<ListBucketResult>{found}</ListBucketResult>")

    def _multipart(self, request: web.Request, key: str, body: bytes) -> web.Response:
        query, parts = request.query, self.parts.setdefault(key, {})
        if "uploads" in query:
            parts["type"] = request.headers.get("Content-Type", "").encode()
            return _xml("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
        if request.method == "DELETE":
            return web.Response(status=204)
        place = query.get("partNumber") or query.get("blockid")
        if place is not None:
            parts[place] = body
            return web.Response(status=201, headers={"ETag": _etag(body)})
        kept = parts.pop("type", request.headers.get("x-ms-blob-content-type", "").encode()).decode()
        if query.get("comp") == "blocklist":
            order = re.findall(r"<Uncommitted>(.*?)</Uncommitted>", body.decode())
        else:
            order = re.findall(r"<PartNumber>(.*?)</PartNumber>", body.decode())
        whole = b"".join(parts[each] for each in order)
        del self.parts[key]
        self.add(key, whole, kept)
        if query.get("comp") == "blocklist":
            return web.Response(status=201, headers=_headers(whole))
        return _xml(
            f"<CompleteMultipartUploadResult><ETag>{escape(_etag(whole))}</ETag></CompleteMultipartUploadResult>"
        )

    def _batch(self, body: bytes, content_type: str) -> web.Response:
        """Many deletes in one request of Azure."""
        answers = []
        for number, path in enumerate(re.findall(r"DELETE (\S+) HTTP/1.1", body.decode())):
            key = unquote(path.partition("?")[0].lstrip("/")).removeprefix("azure/")
            status = "202 Accepted" if self.objects.pop(key, None) else "404 The specified blob does not exist."
            answers.append(
                f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n\r\n"
            )
        text = "".join(answers) + "--b--"
        del content_type
        return web.Response(status=202, body=text.encode(), headers={"Content-Type": "multipart/mixed; boundary=b"})


def _xml(text: str) -> web.Response:
    return web.Response(body=f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode(), content_type="application/xml")


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'  # as the services do


def _headers(body: bytes) -> dict[str, str]:
    return {"ETag": _etag(body), "Last-Modified": formatdate(1_767_225_600, usegmt=True), "x-goog-generation": "1"}


@contextmanager
def cloud_server() -> Iterator[tuple[str, CloudServer]]:
    """The address, without a slash at the end, and what it holds."""
    server, port = CloudServer(), free_port()
    ready, stop = Event(), Event()

    async def serve() -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        ready.set()
        await asyncio.to_thread(stop.wait)
        await runner.cleanup()

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{port}", server
    finally:
        stop.set()
        thread.join()


def google_account(address: str) -> str:
    """The key of a service account for the stand-in, which needs no token."""
    empty = {"client_email": "", "private_key": "", "private_key_id": ""}
    return json.dumps({"gcs_base_url": address, "disable_oauth": True, **empty})
