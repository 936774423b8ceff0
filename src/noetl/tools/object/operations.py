"""The operations of the `object` tool, each on one object or folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import obstore
from obstore.store import ObjectStore

from noetl.errors import NoetlError
from noetl.output import JSON, Output
from noetl.tool import Call
from noetl.tools.errors import InvalidInput, TooLarge, ToolError
from noetl.tools.object.payload import open_object, write_object
from noetl.tools.object.stores import Access, ObjectStores, ObjectUrl, failure_of, object_ref, own_part, parse_url
from noetl.tools.object.tool import LIST_MAX, ObjectInput
from noetl.tools.payload import InvalidJson, decode_json, is_json, is_ref, text_or_base64

if TYPE_CHECKING:
    from obstore import ObjectMeta

OPERATIONS: Final = ("get", "put", "list", "delete", "copy")
DATA_BYTES_MAX: Final = 64 * 1024 * 1024  # of an object that is returned as data


class ObjectOperations:
    """The operations of one call."""

    def __init__(self, stores: ObjectStores, access: Access, call: Call) -> None:
        self._stores = stores
        self._access = access
        self._call = call

    async def run(self, input: ObjectInput) -> Output:
        """Raises ToolError and the errors of the result store."""
        given = [(name, each) for name in OPERATIONS if (each := getattr(input, name)) is not None]
        if len(given) != 1:
            raise InvalidInput("exactly one of `get`, `put`, `list`, `delete` and `copy` is required")
        label, text = given[0]
        url = parse_url(f"`{label}`", text, self._call.folder, is_folder=label == "list")
        store = await self._stores.store(url, self._access)
        try:
            match label:
                case "get":
                    return await self._get(store, url, input.as_)
                case "put":
                    return await self._put(store, url, input)
                case "list":
                    return await self._list(store, url, input.limit)
                case "delete":
                    return await self._delete(store, url)
            return await self._copy(store, url, input.to)
        except (ToolError, NoetlError):
            raise
        except Exception as error:  # noqa: BLE001  # obstore raises its own errors, OSError and ValueError
            return failure_of(error, url)

    async def _get(self, store: ObjectStore, url: ObjectUrl, as_: str) -> Output:
        if as_ == "ref":
            head = await obstore.head_async(store, url.path)
            meta = {"content_type": url.content_type, "bytes": head["size"], "etag": head["e_tag"]}
            ref = object_ref(url, self._access, meta)
            return Output(ref=ref, own=own_part(size=head["size"], etag=head["e_tag"]))
        found = await open_object(store, url)
        own = own_part(size=found.size, etag=found.etag)
        if as_ == "file":
            results, execution_id = self._call.results, self._call.execution_id
            ref = await results.write(execution_id, self._shown(found.chunks, found.size), found.content_type)
            return Output(ref=ref, own=own)
        _check_size(url, found.size, "as: file")
        body = b"".join([chunk async for chunk in found.chunks])
        if not is_json(found.content_type):
            return Output(data=text_or_base64(body), own=own)
        try:
            return Output(data=decode_json(body), own=own)
        except InvalidJson as error:
            raise InvalidInput(f'the content of "{url}" {error}') from error

    async def _shown(self, chunks: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
        done = 0
        async for chunk in chunks:
            done += len(chunk)
            self._call.progress(done, size)
            yield chunk

    async def _put(self, store: ObjectStore, url: ObjectUrl, input: ObjectInput) -> Output:
        given = [name for name in ("json", "text", "from_ref") if getattr(input, name) not in (None, msgspec.UNSET)]
        given += ["json"] if input.json is None else []
        if len(given) != 1:
            raise InvalidInput("`put` needs exactly one of `json`, `text` and `from_ref`")
        content_type = input.content_type or url.content_type
        body: bytes | AsyncIterator[bytes]
        if input.from_ref is not None:
            if not is_ref(input.from_ref):
                raise InvalidInput("`from_ref` must be a Ref, the value of `output.ref` of an earlier task")
            meta = input.from_ref.get("meta", {})
            content_type = input.content_type or str(meta.get("content_type") or content_type)
            body = self._call.results.read(input.from_ref)
            if not input.overwrite:
                _check_size(url, meta.get("bytes", 0), "overwrite: true")
                body = b"".join([chunk async for chunk in body])  # a multipart upload has no such condition
        elif input.text is not None:
            try:
                body = input.text.encode()
            except UnicodeEncodeError:
                raise InvalidInput("`text` is not valid Unicode") from None
        else:
            body = msgspec.json.encode(input.json)
        done = await write_object(store, url, body, content_type, overwrite=input.overwrite)
        kept = {"content_type": content_type, "bytes": done.size, "sha256": done.sha256, "etag": done.etag}
        data = {"url": str(url), "bytes": done.size}
        own = own_part(size=done.size, etag=done.etag)
        return Output(data=data, ref=object_ref(url, self._access, kept), own=own)

    async def _list(self, store: ObjectStore, url: ObjectUrl, limit: int | None) -> Output:
        most = LIST_MAX if limit is None else limit
        found: list[JSON] = []
        async for batch in obstore.list(store, prefix=url.path or None, chunk_size=1_000):
            found += [_described(url.at(each["path"]), each) for each in batch]
            if len(found) > most:
                break
        if limit is None and len(found) > most:
            raise TooLarge(f'"{url}" has more than {most:,} objects; list a subfolder, or set `limit`')
        return Output(data=found[:most], own=own_part(more=len(found) > most))

    async def _delete(self, store: ObjectStore, url: ObjectUrl) -> Output:
        with suppress(FileNotFoundError):  # a repeated call must not fail
            await obstore.delete_async(store, url.path)
        return Output(data={"url": str(url)})

    async def _copy(self, store: ObjectStore, url: ObjectUrl, to: str | None) -> Output:
        if to is None:
            raise InvalidInput("`copy` needs `to`, the address of the copy")
        target = parse_url("`to`", to, self._call.folder)
        other = await self._stores.store(target, self._access)
        if (target.system, target.bucket) == (url.system, url.bucket):
            await obstore.copy_async(store, url.path, target.path)
            head = await obstore.head_async(other, target.path)
            meta: dict[str, JSON] = {"content_type": target.content_type, "bytes": head["size"], "etag": head["e_tag"]}
        else:
            found = await open_object(store, url)
            done = await write_object(other, target, self._shown(found.chunks, found.size), found.content_type)
            meta = {
                "content_type": found.content_type, "bytes": done.size, "sha256": done.sha256, "etag": done.etag,
            }  # fmt: skip
        data = {"url": str(target), "bytes": meta["bytes"]}
        own = own_part(size=meta["bytes"], etag=meta["etag"])
        return Output(data=data, ref=object_ref(target, self._access, meta), own=own)


def _check_size(url: ObjectUrl, size: JSON, instead: str) -> None:
    """Raises TooLarge."""
    if isinstance(size, int) and size > DATA_BYTES_MAX:
        limit = f"limit DATA_BYTES_MAX: {DATA_BYTES_MAX:,}"
        raise TooLarge(f'the content of "{url}" has {size:,} bytes ({limit}); use `{instead}`')


def _described(url: ObjectUrl, found: ObjectMeta) -> JSON:
    path = f"/{url.path}" if url.system == "file" else url.path
    modified = found["last_modified"].isoformat().replace("+00:00", "Z")
    return {"url": str(url), "path": path, "bytes": found["size"], "modified": modified, "etag": found["e_tag"]}
