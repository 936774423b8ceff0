"""Result stores by their addresses: in S3, in NATS, in PostgreSQL. Their libraries are extras."""

from __future__ import annotations

from noetl.errors import Rejected, install_hint
from noetl.runtime.settings import RESULTS, result_stores, s3_endpoint
from noetl.worker.result_stores import NamedStore, ResultStores


def open_stores(nats: str) -> ResultStores:
    """Those of servers and workers, which have no disk together: as configured, else in NATS itself."""
    return ResultStores([far_results(name) for name in result_stores(default=nats)])


def far_results(url: str) -> NamedStore:
    """A store that is not on our disk. What it needs is imported now. Raises Rejected, with no address."""
    scheme, _, rest = url.partition("://")
    try:
        match scheme:
            case "s3":
                from noetl.adapters.objects.results import ObjectResults

                return NamedStore("s3", ObjectResults(url, s3_endpoint()), shared=True)
            case "nats" | "tls":
                from noetl.adapters.nats.results import BUCKET, NatsResults

                host, _, bucket = rest.partition("/")
                return NamedStore(
                    "nats_object", NatsResults(f"{scheme}://{host}", bucket or BUCKET), shared=True
                )
            case "postgresql" | "postgres":
                from noetl.adapters.postgres.results import PostgresResults

                return NamedStore("postgres", PostgresResults(url), shared=True)
    except ImportError as error:
        extra = {"s3": "objects", "nats": "nats", "tls": "nats"}.get(scheme, "postgres")
        raise Rejected("no-adapter", f"{RESULTS} needs an extra: {install_hint(extra)}") from error
    words = "files, sqlite, s3://bucket/prefix, nats://host:port/bucket or postgresql://…"
    raise Rejected("bad-setting", f"{RESULTS} names a store that nobody knows: write {words}")
