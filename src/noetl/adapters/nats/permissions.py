"""The NATS users for isolated pools: one for servers, and one for each pool that reaches only its own subjects.

`nats_users` writes the part of the NATS configuration that `noetl up` uses and `noetl nats-users` prints.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from noetl.adapters.nats.subjects import BUCKET, INBOX, NEXT, STREAM, SUBJECT
from noetl.defaults import POOL
from noetl.errors import Rejected

SERVER_USER: Final = "noetl"
PASSWORD_VARIABLE: Final = "NATS_PASSWORD"
POOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


class NatsUser(NamedTuple):
    """A NATS user. The password is a quoted string, or the name of an environment variable with a dollar sign."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"NatsUser({self.name})"


def inbox_of(pool: str) -> str:
    """The prefix of the subjects on which a worker of the pool receives replies."""
    return f"{INBOX}.pool.{pool}"


def user_of(pool: str) -> str:
    return f"pool-{pool}"


def password_variable(pool: str) -> str:
    """The environment variable of NATS that holds the password of the pool's user."""
    return f"{PASSWORD_VARIABLE}_{pool.upper().replace('-', '_')}"


def publish_subjects(pool: str, bucket: str = BUCKET) -> list[str]:
    """The subjects on which a worker of the pool may publish. `bucket`: of its results."""
    store = f"OBJ_{bucket}"
    results = [
        f"$O.{bucket}.>",
        f"$JS.API.STREAM.INFO.{store}",
        f"$JS.API.STREAM.MSG.GET.{store}",
        f"$JS.API.DIRECT.GET.{store}.>",
        f"$JS.API.CONSUMER.CREATE.{store}.>",
        f"$JS.API.CONSUMER.INFO.{store}.>",
        f"$JS.API.CONSUMER.MSG.NEXT.{store}.>",
        f"$JS.API.CONSUMER.DELETE.{store}.>",
    ]
    return [
        f"noetl.ask.*.{pool}",  # requests to the owner of a partition
        f"noetl.workers.{pool}",  # announcements
        "noetl.words.*",  # lines of output, for people who follow an execution
        f"$JS.API.CONSUMER.CREATE.{STREAM}.{pool}.{SUBJECT}.{pool}",
        f"{NEXT}.{pool}",
        f"$JS.ACK.{STREAM}.{pool}.>",
        f"{inbox_of(pool)}.>",  # to itself, to wait until NATS has processed everything
        *results,
    ]


def subscribe_subjects(pool: str) -> list[str]:
    return [f"{inbox_of(pool)}.>", "noetl.roll-call"]


class PoolUser(NamedTuple):
    """The user of a pool, and the bucket of its results."""

    pool: str
    user: NatsUser
    bucket: str = BUCKET


def nats_users(server: NatsUser, pools: Sequence[PoolUser] = ()) -> str:
    """The `authorization` block of the NATS configuration: the user of servers, and the users of pools."""
    lines = ["authorization {", "  users: [", f'    {{user: "{server.name}", password: {server.password}}} # servers']
    for pool, user, bucket in pools:
        lines += [
            "    {",
            f'      user: "{user.name}", password: {user.password}',
            "      permissions: {",
            "        publish: {allow: [",
            *(f'          "{each}"' for each in publish_subjects(pool, bucket)),
            "        ]}",
            "        subscribe: {allow: [",
            *(f'          "{each}"' for each in subscribe_subjects(pool)),
            "        ]}",
            "      }",
            "    }",
        ]
    return "\n".join([*lines, "  ]", "}", ""])


def nats_users_template(pools: Sequence[str] = (POOL,)) -> str:
    """The block with environment variables in place of passwords. `pools`: POOL or POOL=BUCKET. Raises Rejected."""
    users: dict[str, PoolUser] = {}
    for each in pools:
        pool, equals, bucket = each.partition("=")
        if not POOL_NAME.fullmatch(pool) or (equals and not POOL_NAME.fullmatch(bucket)):
            raise Rejected(
                "bad-pool", f'"{each[:80]}" is not a pool: write POOL or POOL=BUCKET, of letters, digits, - and _'
            )
        variable = password_variable(pool)
        if variable in users:
            raise Rejected("bad-pool", f"several pools have the password variable {variable}")
        users[variable] = PoolUser(pool, NatsUser(user_of(pool), f"${variable}"), bucket or BUCKET)
    return nats_users(NatsUser(SERVER_USER, f"${PASSWORD_VARIABLE}"), list(users.values()))
