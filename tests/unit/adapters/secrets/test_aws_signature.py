"""Signatures are those that the library of AWS makes."""

from __future__ import annotations

from datetime import UTC, datetime

from botocore.auth import SigV4Auth  # type: ignore[import-untyped] # it has none
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped] # it has none
from botocore.credentials import Credentials  # type: ignore[import-untyped] # it has none

from noetl.adapters.secrets.services import AwsKeys, SecretRequest, sign
from noetl.secret import Secret


def test_a_request_is_signed_as_the_library_of_aws_does_it() -> None:
    url = "https://secretsmanager.eu-central-1.amazonaws.com/"
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Security-Token": "session"}
    body = b'{"SecretId":"db"}'
    keys = AwsKeys("AKIAOURS", Secret("key of ours"), "eu-central-1", "secretsmanager")
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ours = sign(SecretRequest("POST", url, "it", headers, body), keys, at)

    theirs = AWSRequest(method="POST", url=url, data=body, headers={**headers, "X-Amz-Date": "20260102T030405Z"})
    theirs.context["timestamp"] = "20260102T030405Z"
    credentials = Credentials("AKIAOURS", "key of ours", "session")
    auth = SigV4Auth(credentials, "secretsmanager", "eu-central-1")
    wanted = auth.string_to_sign(theirs, auth.canonical_request(theirs))
    assert ours.headers["Authorization"].endswith(f"Signature={auth.signature(wanted, theirs)}")
    assert "key of ours" not in ours.headers["Authorization"]
