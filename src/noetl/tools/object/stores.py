"""Object stores of authors: addresses, credentials and errors. obstore makes the requests."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from ipaddress import ip_network
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, LocalStore, ObjectStore, S3Store

from noetl.addresses import refusal
from noetl.cache import BoundedCache
from noetl.output import JSON, Failure, Output
from noetl.tool import Auth
from noetl.tools.errors import InvalidInput, allow_hint
from noetl.tools.paths import path_inside
from noetl.tools.systems import OBJECT_STORES

STORES_MAX: Final = 32  # open stores of one worker
RETRIES: Final = 4
RETRY_S: Final = 20
CONNECT_S: Final = 10
REQUEST_S: Final = 3_600  # the timeout of the task is usually shorter
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_STATUS: Final = re.compile(r"status(?: code)?: (\d{3})")
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9-]{1,63}")  # a part of the host name
_KINDS: Final = {"s3": "aws_credential", "gs": "gcp_credential", "az": "azure_credential"}
CONTENT_TYPES: Final = {
    ".json": "application/json",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".csv": "text/csv",
    ".txt": "text/plain",
    ".parquet": "application/vnd.apache.parquet",
}


class ObjectUrl(NamedTuple):
    """The address of an object, or of a folder."""

    system: str  # one of OBJECT_STORES
    bucket: str  # "" for files
    path: str  # in the bucket; of a file: its absolute path without the first slash

    def __str__(self) -> str:
        return f"file:///{self.path}" if self.system == "file" else f"{self.system}://{self.bucket}/{self.path}"

    def at(self, path: str) -> ObjectUrl:
        return self._replace(path=path)

    @property
    def content_type(self) -> str:
        """By the ending of the name."""
        return CONTENT_TYPES.get(os.path.splitext(self.path)[1].lower(), "application/octet-stream")


def parse_url(label: str, text: str, folder: str | None, *, is_folder: bool = False) -> ObjectUrl:
    """`s3://bucket/path`, `gs://…`, `az://container/path`, `file:///path`, or a path. Raises InvalidInput."""
    if _CONTROL.search(text):
        raise InvalidInput(f"{label} contains a control character")
    scheme, colon, rest = text.partition("://")
    if not colon:
        return ObjectUrl("file", "", os.path.abspath(path_inside(label, text, folder)).lstrip("/"))
    if scheme not in OBJECT_STORES:
        raise InvalidInput(f"{label} must begin with {', '.join(f'{each}://' for each in OBJECT_STORES)}, or be a path")
    if scheme == "file":
        if not rest.startswith("/"):
            raise InvalidInput(f"{label}: a file is file:///path, with three slashes, or a path")
        return ObjectUrl("file", "", os.path.abspath(rest).lstrip("/"))
    bucket, _, path = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{label} has no valid bucket: {scheme}://bucket/path")
    if not path.strip("/") and not is_folder:
        raise InvalidInput(f"{label} names no object: {scheme}://bucket/path")
    return ObjectUrl(scheme, bucket, path.strip("/"))


class Access(NamedTuple):
    """How to reach a store."""

    auth: Auth | None = None  # None: the environment of the worker, or the role of its machine
    endpoint: str | None = None  # of another service


OF_THE_WORKER: Final = Access()  # without a keychain entry


class ObjectStores:
    """The stores that one tool has open."""

    def __init__(self, *, allow_private: bool = True, allow: Sequence[str] = ()) -> None:
        """The fields of AddressPolicy (D88)."""
        self._allow_private = allow_private
        self._allow = [ip_network(each) for each in allow]
        self._open: BoundedCache[tuple[object, ...], ObjectStore] = BoundedCache(STORES_MAX)

    async def store(self, url: ObjectUrl, access: Access = OF_THE_WORKER) -> ObjectStore:
        """Raises InvalidInput."""
        if url.system == "file":
            return LocalStore("/")
        auth = access.auth
        if auth is None and not self._allow_private:
            # Its own credentials also open the result store, with the results of other authors.
            raise InvalidInput(f"{url.system}:// needs `auth` on a server: a playbook cannot use the worker's own keys")
        fields = {} if auth is None else _fields(url.system, auth)
        endpoint = access.endpoint or fields.get("endpoint")
        for label, address in (("`endpoint`", endpoint), ("`gcs_base_url`", _google_address(fields))):
            if address is not None:
                await self._check(label, address)
        key = (url.system, url.bucket, endpoint, None if auth is None else frozenset(auth.values.items()))
        return self._open.get(key) or self._open.put(key, _store(url, fields, endpoint))

    async def _check(self, label: str, address: str) -> None:
        """The address must be allowed. Raises InvalidInput."""
        try:
            parts = urlsplit(address)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            parts, port = urlsplit(""), 0
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InvalidInput(f"{label} must be an address such as https://minio.example.com")
        if self._allow_private:
            return
        try:
            found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port)
        except OSError:
            raise InvalidInput(f"the host of {label} has no address") from None
        for each in found:
            reason = refusal(str(each[4][0]), allow_private=False, allow=self._allow)
            if reason is not None:
                raise InvalidInput(f"the address of {label} is not allowed: {reason}{allow_hint(reason)}")


def _fields(system: str, auth: Auth) -> dict[str, str]:
    """The fields of a credential for this kind of store. Raises InvalidInput."""
    wanted = _KINDS[system]
    if auth.kind != wanted and not (system == "gs" and set(auth.values) == {""}):
        message = f'keychain entry "{auth.name}" has the kind "{auth.kind}"'
        raise InvalidInput(f"{message}; {system}:// needs one of kind {wanted}")
    fields = {name: secret.reveal() for name, secret in auth.values.items()}
    if not _ACCOUNT.fullmatch(fields.get("account", "-")):
        raise InvalidInput(f'keychain entry "{auth.name}": `account` is not the name of a storage account')
    return fields


def _google_address(fields: Mapping[str, str]) -> str | None:
    """The address of another service in the key of a service account. None: Google's own."""
    try:
        found = msgspec.json.decode(fields.get("", "{}"))
    except msgspec.DecodeError:
        return None
    address = found.get("gcs_base_url") if isinstance(found, dict) else None
    return None if address is None else str(address)


def _store(url: ObjectUrl, fields: Mapping[str, str], endpoint: str | None) -> ObjectStore:
    options: dict[str, Any] = {
        "client_options": {
            "allow_http": (endpoint or os.environ.get("AWS_ENDPOINT_URL") or "").startswith("http://"),
            "timeout": timedelta(seconds=REQUEST_S),
            "connect_timeout": timedelta(seconds=CONNECT_S),
        },
        "retry_config": {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)},
    }
    config: Any = {"endpoint": endpoint} if endpoint else {}
    if url.system == "s3":
        if region := fields.get("region"):
            config["region"] = region
        if fields:
            # Not as settings: a session token in the environment of the worker would be sent with them.
            keys = [fields["access_key_id"], fields["secret_access_key"], fields.get("session_token")]
            provider = _provider(dict(zip(("access_key_id", "secret_access_key", "token"), keys, strict=True)))
            return S3Store(url.bucket, config=config or None, credential_provider=provider, **options)
        return S3Store(url.bucket, config=config or None, **options)
    if url.system == "gs":
        if fields:
            config = {"service_account_key": fields[""]}
            options["client_options"]["allow_http"] = (_google_address(fields) or "").startswith("http://")
        return GCSStore(url.bucket, config=config or None, **options)
    if fields:
        config["account_name"] = fields["account"]
        secret = {"sas_token": fields["sas_token"]} if "sas_token" in fields else {"access_key": fields["key"]}
        return AzureStore(url.bucket, config=config, credential_provider=_provider(secret), **options)
    return AzureStore(url.bucket, config=config or None, **options)


def _provider(values: Mapping[str, str | None]) -> Any:
    return lambda: {**values, "expires_at": None}


def object_ref(url: ObjectUrl, access: Access, meta: Mapping[str, JSON]) -> dict[str, JSON]:
    """A Ref to an object (D98)."""
    locator = {"system": url.system, "url": str(url), **({"endpoint": access.endpoint} if access.endpoint else {})}
    ref: dict[str, JSON] = {"type": "object_store", "locator": locator}
    if access.auth is not None:
        ref["auth_reference"] = f"keychain/{access.auth.name}"
    return {**ref, "meta": {name: value for name, value in meta.items() if value is not None}}


def failure_of(error: Exception, url: ObjectUrl) -> Output:
    """An error of a store. Its own text may contain addresses and answers, so only its type is used."""
    match error:
        case InvalidInput():
            return error.output()
        case FileNotFoundError():
            return _failed("not-found", f'there is no object "{url}"')
        case PermissionDeniedError() | UnauthenticatedError() | PermissionError():
            return _failed("denied", f'access to "{url}" is denied: check the credential')
        case AlreadyExistsError():
            return _failed("exists", f'"{url}" already exists')
        case PreconditionError():
            return _failed("changed", f'"{url}" has changed')
        case NotSupportedError():
            return _failed("not-supported", f'the store of "{url}" does not support this operation')
        case InvalidPathError():
            return _failed("bad-path", f'"{url}" is not a valid path')
        case BaseError() | OSError() | ValueError():
            found = _STATUS.search(str(error))
            status = int(found[1]) if found else 0
            if status == HTTPStatus.NOT_FOUND:
                return _failed("not-found", f'there is no bucket "{url.system}://{url.bucket}"')
            refused = 400 <= status < 500 and status not in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
            reason = f"HTTP {status}" if status else type(error).__name__
            code = "refused" if refused else "unavailable"
            return _failed(code, f'the store of "{url}" cannot be used: {reason}', retryable=not refused)
    raise error


def _failed(code: str, message: str, *, retryable: bool = False) -> Output:
    failure = Failure(kind="object", message=message, retryable=retryable, details={"code": code})
    return Output(status="error", error=failure, own=own_part(code=code))


def own_part(
    *, code: str | None = None, size: int | None = None, etag: str | None = None, more: bool = False
) -> dict[str, JSON]:
    return {"object": {"code": code, "bytes": size, "etag": etag, "more": more}}
