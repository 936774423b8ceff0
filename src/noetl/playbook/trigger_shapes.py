"""The keys of triggers: a part of the language table."""

from __future__ import annotations

from typing import get_args

from noetl.playbook.model import Catchup
from noetl.playbook.shapes import (
    AnyShape,
    ChoiceShape,
    KeyShape,
    KindShape,
    MapShape,
    NumberShape,
    RecordShape,
    TextShape,
    UnionShape,
)

_SHARED = {
    "name": KeyShape(TextShape(name=True), "name of the trigger", required=True, example="nightly"),
    "kind": KeyShape(TextShape(), "what the trigger reacts to", required=True),
    "desc": KeyShape(TextShape(), "description for readers"),
    "workload": KeyShape(
        MapShape(AnyShape()),
        "inputs of the executions; templates read `trigger`, and `request` of a webhook or `message` of NATS",
    ),
}
_TIMED = {
    "jitter_s": KeyShape(
        NumberShape(0),
        "delays each execution by up to this many seconds; the delay differs from time to time",
        default=0,
    ),
    "catchup": KeyShape(
        ChoiceShape(get_args(Catchup)),
        "what to start for times that passed while no server ran: nothing, the last one, or all",
        default="last",
    ),
}
_VERIFY = RecordShape(
    "verify",
    "How a webhook proves where it comes from: exactly one of the two keys.",
    {
        "hmac": KeyShape(
            RecordShape(
                "verify.hmac",
                "A signature of the body.",
                {
                    "secret": KeyShape(TextShape(name=True), "keychain entry with the shared secret", required=True),
                    "header": KeyShape(TextShape(), "header with the signature", default="X-Signature"),
                    "algorithm": KeyShape(ChoiceShape(("sha256", "sha512", "sha1")), "hash function", default="sha256"),
                    "encoding": KeyShape(ChoiceShape(("hex", "base64")), "form of the signature", default="hex"),
                },
            ),
            "a signature of the body; a prefix such as `sha256=` is accepted",
        ),
        "token": KeyShape(
            UnionShape(
                (
                    TextShape(name=True),
                    RecordShape(
                        "verify.token",
                        "A secret in a header.",
                        {
                            "secret": KeyShape(TextShape(name=True), "keychain entry with the token", required=True),
                            "header": KeyShape(TextShape(), "header with the token", default="Authorization"),
                        },
                    ),
                )
            ),
            "keychain entry with a token, which the request sends as `Authorization: Bearer …`, or in another header",
        ),
    },
)

TRIGGER = KindShape(
    "trigger",
    "Starts executions of the playbook automatically.",
    {
        "cron": RecordShape(
            "cron trigger",
            "Starts an execution at the times of a cron expression.",
            {
                **_SHARED,
                "cron": KeyShape(
                    TextShape(),
                    "minute, hour, day of the month, month, day of the week",
                    required=True,
                    example="0 6 * * 1-5",
                ),
                "timezone": KeyShape(TextShape(), "its time zone", default="UTC", example="Europe/Zurich"),
                **_TIMED,
            },
        ),
        "interval": RecordShape(
            "interval trigger",
            "Starts an execution at a fixed interval, counted from the registration.",
            {**_SHARED, "every_s": KeyShape(NumberShape(1), "seconds between two executions", required=True), **_TIMED},
        ),
        "webhook": RecordShape(
            "webhook trigger",
            "Starts an execution for each request to an address of the server.",
            {
                **_SHARED,
                "path": KeyShape(TextShape(), "the address: /hooks/<path>", required=True, example="orders/new"),
                "method": KeyShape(ChoiceShape(("POST", "PUT", "GET")), "method of the request", default="POST"),
                "verify": KeyShape(_VERIFY, "how the request is verified; without it, it needs an API token"),
                "key": KeyShape(
                    TextShape(templated=True),
                    "requests with the same key start one execution",
                    example="{{ request.headers['x-delivery'] }}",
                ),
            },
        ),
        "nats": RecordShape(
            "nats trigger",
            "Starts an execution for each NATS message: on a subject, or in a JetStream stream.",
            {
                **_SHARED,
                "subject": KeyShape(
                    TextShape(),
                    "subject of the messages, with `*` and `>`; with `stream`, which of its messages",
                    example="shop.orders.>",
                ),
                "stream": KeyShape(
                    TextShape(), "JetStream stream, which must exist; no message is lost", example="ORDERS"
                ),
                "deliver": KeyShape(
                    ChoiceShape(("new", "all")),
                    "with `stream`: messages since the registration, or all that the stream has",
                    default="new",
                ),
                "group": KeyShape(
                    TextShape(name=True),
                    "name of the queue group or of the durable consumer; by default derived from path and name",
                ),
                "auth": KeyShape(
                    TextShape(name=True),
                    "keychain entry of kind `nats_credential`; without it, the NATS of the server",
                ),
                "key": KeyShape(
                    TextShape(templated=True),
                    "messages with the same key start one execution; by default the number in the stream",
                    example="{{ message.headers['id'] }}",
                ),
            },
        ),
    },
    RecordShape("trigger", "A trigger of an unknown kind.", _SHARED, extra=AnyShape()),
)
