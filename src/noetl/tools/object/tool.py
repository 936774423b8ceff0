"""`object`: reads, writes, lists, deletes and copies objects in S3, Google Cloud Storage, Azure, and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from noetl.errors import NoetlError
from noetl.output import JSON, Output
from noetl.tool import Call, Tool
from noetl.tools.errors import ToolError, not_installed, store_failure

if TYPE_CHECKING:
    from noetl.tools.object.stores import ObjectStores

LIST_MAX: Final = 10_000  # objects of a list without `limit`


class ObjectInput(Struct, kw_only=True):
    """An operation, and the object it concerns."""

    get: Annotated[
        str | None,
        Meta(
            description="object to read: `s3://bucket/path`, `gs://bucket/path`, `az://container/path`, "
            "`file:///path`, or a path relative to the playbook"
        ),
    ] = None
    put: Annotated[str | None, Meta(description="object to write, from `json`, `text` or `from_ref`")] = None
    list: Annotated[str | None, Meta(description="folder whose objects are listed, with all its subfolders")] = None
    delete: Annotated[str | None, Meta(description="object to delete; a missing object is not an error")] = None
    copy: Annotated[str | None, Meta(description="object to copy to `to`")] = None
    to: Annotated[str | None, Meta(description="for `copy`: the address of the copy")] = None
    json: Annotated[JSON | msgspec.UnsetType, Meta(description="for `put`: a value, written as JSON")] = msgspec.UNSET
    text: Annotated[str | None, Meta(description="for `put`: text")] = None
    from_ref: Annotated[
        dict[str, JSON] | None, Meta(description="for `put`: a Ref of a stored result, which is streamed")
    ] = None
    content_type: Annotated[
        str | None, Meta(description="for `put`: the type of the content; default: by the ending of the name")
    ] = None
    overwrite: Annotated[
        bool, Meta(description="for `put`: replace an existing object; if false, an existing one is an error")
    ] = True
    as_: Annotated[
        Literal["data", "ref", "file"],
        Meta(
            description="for `get`: `data` returns the content, `ref` a Ref to the object without reading it, and "
            "`file` streams it to the result store, where secrets in it are not masked"
        ),
    ] = msgspec.field(name="as", default="data")
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description=f"for `list`: maximum number of objects; default: {LIST_MAX:,}, and more are an error"),
    ] = None
    endpoint: Annotated[
        str | None, Meta(description="address of another service, for example `https://minio.example.com`")
    ] = None


class ObjectPart(Struct, kw_only=True):
    """The tool's own part of the output."""

    code: Annotated[
        str | None,
        Meta(description="reason of a failure: `not-found`, `denied`, `exists`, `changed`, `refused` or `unavailable`"),
    ] = None
    bytes: Annotated[int | None, Meta(description="size of the object")] = None
    etag: Annotated[str | None, Meta(description="identifier of this version of the object")] = None
    more: Annotated[bool, Meta(description="`list` has found more objects than `limit`")] = False


class ObjectTool(Tool):
    """Reads, writes, lists, deletes or copies objects in S3, Google Cloud Storage or Azure, or files.

    `auth` names a keychain entry of kind `aws_credential`, `gcp_credential` or `azure_credential`. Without it,
    `noetl run` uses its environment or the role of the machine; on a server it is required. `output.data` of
    `get` is JSON, text or `{base64: …}`, and of `list` a list of `{url, path, bytes, modified, etag}`. `put`,
    `copy` and `get` with `as: ref` return a Ref to the object, which `resolve` fetches.
    """

    kind = "object"
    failures = ("object",)
    connects = True
    Input = ObjectInput
    one_of = (("get", "put", "list", "delete", "copy"),)
    defaults = {"timeout": 300}
    output = "object"
    OutputPart = ObjectPart
    example = """\
kind: object
put: out/rows.json
from_ref: "{{ ctx.rows_ref }}"
"""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._policy = (allow_private, tuple(allow))
        self._stores: ObjectStores | None = None

    async def run(self, input: ObjectInput, call: Call) -> Output:
        try:
            from noetl.tools.object.operations import ObjectOperations
            from noetl.tools.object.stores import Access, ObjectStores
        except ImportError:
            return not_installed("obstore", "objects")
        if self._stores is None:
            allow_private, allow = self._policy
            self._stores = ObjectStores(allow_private=allow_private, allow=allow)
        operations = ObjectOperations(self._stores, Access(call.auth, input.endpoint), call)
        try:
            return await operations.run(input)
        except ToolError as error:
            return error.output()
        except NoetlError as error:
            return store_failure(error)
