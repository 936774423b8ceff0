"""AWS Signature Version 4: a request that proves who sends it, without sending the key."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from noetl.adapters.secrets.requests import SecretRequest
from noetl.secret import Secret


class Keys(NamedTuple):
    access: str
    secret: Secret
    region: str
    service: str


def signed(asked: SecretRequest, keys: Keys, at: datetime) -> SecretRequest:
    """The request with its signature. Its path needs no quoting, and it has no query: we ask for no more."""
    stamp = f"{at:%Y%m%dT%H%M%SZ}"
    url = urlsplit(asked.url)
    headers = {"Host": url.netloc, **asked.headers, "X-Amz-Date": stamp}
    named = sorted((name.lower(), value.strip()) for name, value in headers.items())
    names = ";".join(name for name, _ in named)
    lines = "".join(f"{name}:{value}\n" for name, value in named)
    request = f"{asked.method}\n{url.path or '/'}\n\n{lines}\n{names}\n{_digest(asked.body or b'')}"
    scope = f"{stamp[:8]}/{keys.region}/{keys.service}/aws4_request"
    wanted = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{_digest(request.encode())}"
    key = f"AWS4{keys.secret.reveal()}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    proof = f"Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={_mac(key, wanted).hex()}"
    return asked._replace(headers={**headers, "Authorization": f"AWS4-HMAC-SHA256 {proof}"})


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
