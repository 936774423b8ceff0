"""Credentials of PostgreSQL are parsed, and the environment of the worker is ignored."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from textwrap import dedent

import asyncpg
import pytest

from noetl.secret import Secret
from noetl.tools.postgres.pool import (
    POOLS_MAX,
    ConnectionPools,
    ConnectionsBusy,
    ConnectionTarget,
    InvalidCredential,
    connection_target,
)
from tests.services import PASSWORD, database, postgres


def read(**values: str) -> ConnectionTarget:
    return connection_target({name or "": Secret(value) for name, value in values.items()})


@pytest.mark.parametrize(
    ("dsn", "hosts", "user", "password", "name"),
    [
        ("postgresql://u:hush@h/d", [("h", 5432)], "u", "hush", "d"),
        ("postgres://u@h:1/", [("h", 1)], "u", "", "u"),
        ("postgresql://u:hush%40%2F@h/d%20e", [("h", 5432)], "u", "hush@/", "d e"),
        ("postgresql://u@[::1]:7/d", [("::1", 7)], "u", "", "d"),
        ("postgresql://u@[::1]/d", [("::1", 5432)], "u", "", "d"),
        ("postgresql://u@a:1,b:2/d", [("a", 1), ("b", 2)], "u", "", "d"),
        ("postgresql:///d?host=/run/x&port=9&user=u&password=hush", [("/run/x", 9)], "u", "hush", "d"),
        ("postgresql://u@/d", [("localhost", 5432)], "u", "", "d"),
    ],
)
def test_a_dsn_is_parsed(dsn: str, hosts: list[tuple[str, int]], user: str, password: str, name: str) -> None:
    found = read(dsn=dsn)
    assert (list(found.hosts), found.user, found.password, found.database) == (hosts, user, password, name)
    assert "hush" not in found.options


def test_fields_are_parsed_and_options_are_left_to_the_driver() -> None:
    assert read(host="h", user="u", password="p", port="7").hosts == (("h", 7),)
    assert read(dsn="postgresql://u@h?sslmode=require").options == "postgresql://?sslmode=require"
    verified = read(dsn="postgresql://u@h?sslmode=verify-full&sslrootcert=/ca.pem")
    assert (verified.verify, verified.root, verified.options) == (True, "/ca.pem", "postgresql://")
    with pytest.raises(InvalidCredential, match="one host"):
        read(dsn="postgresql://u@a,b?sslmode=verify-full")


def test_the_number_of_pools_is_limited_and_pools_in_use_stay() -> None:
    async def work() -> None:
        pools = ConnectionPools(allow_private=True)
        async with database() as name:
            values = {"dsn": Secret(postgres().dsn(name))}
            async with pools.connection(values, 10) as connection:
                for number in range(POOLS_MAX + 5):
                    others = {"dsn": Secret(f"{postgres().dsn(name)}&application_name=a{number}")}
                    async with pools.connection(others, 10):
                        pass
                assert await connection.fetchval("SELECT 1") == 1
            await pools.close()

    asyncio.run(work())


def test_the_environment_of_the_worker_is_not_used() -> None:
    code = """
        import asyncio
        import asyncpg
        from noetl.secret import Secret
        from noetl.tools.postgres.pool import ConnectionPools

        async def work() -> None:
            pools = ConnectionPools(allow_private=True)
            values = {"host": Secret("127.0.0.1"), "port": Secret(PORT), "user": Secret("postgres")}
            try:
                async with pools.connection(values, 10):
                    print("in")
            except asyncpg.PostgresError as error:
                print(error.sqlstate)
            await pools.close()

        asyncio.run(work())
    """
    program = f"PORT = {str(postgres().port)!r}\n" + dedent(code)
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGUSER": "postgres", "PGDATABASE": "postgres"}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "28P01"


def certificates(folder: Path, names: list[str]) -> tuple[Path, Path]:
    """A self-signed certificate for these names, and its key."""
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    alternatives = [x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each) for each in names]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "c.pem", folder / "k.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@pytest.mark.parametrize(("names", "fits"), [(["localhost"], True), (["other.example"], False)])
def test_a_certificate_is_verified_against_the_host_name(tmp_path: Path, names: list[str], fits: bool) -> None:
    """The server only makes the TLS handshake; a connection with a wrong certificate does not get that far."""
    certificate, private = certificates(tmp_path, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private)
    reached: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readexactly(8)  # SSLRequest
            writer.write(b"S")
            await writer.drain()
            await writer.start_tls(context)
            reached.append(await reader.read(1))
        except (ConnectionError, ssl.SSLError):
            pass
        writer.transport.abort()

    async def work() -> Exception | None:
        listening = await asyncio.start_server(talk, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        dsn = f"postgresql://u@localhost:{port}/d?sslmode=verify-full&sslrootcert={certificate}"
        pools = ConnectionPools(allow_private=True)
        async with listening:
            try:
                async with pools.connection({"dsn": Secret(dsn)}, 10):
                    return None
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                return error
            finally:
                await pools.close()

    error = asyncio.run(work())
    assert isinstance(error, ssl.SSLCertVerificationError) is not fits
    assert bool(reached) is fits


def test_callers_with_the_same_limit_share_their_connections() -> None:
    async def work() -> None:
        pools = ConnectionPools(allow_private=True)
        async with database() as name:
            values = {"dsn": Secret(postgres().dsn(name))}
            async with pools.connection(values, 10, 2), pools.connection(values, 10, 2):
                with pytest.raises(ConnectionsBusy) as busy:
                    async with pools.connection(values, 10, 2, 0.01):
                        pass
                assert str(busy.value).startswith("no connection was free within 0.01 s (spec.connections: 2,")
                failure = busy.value.output().error
                assert failure is not None
                assert (failure.kind, failure.retryable) == ("timeout", True)
                async with pools.connection(values, 10, 3, 0.01) as other:
                    assert await other.fetchval("SELECT 1") == 1
            async with pools.connection(values, 10, 2, 0.01) as later:
                assert await later.fetchval("SELECT 1") == 1
            await pools.close()

    asyncio.run(work())


def test_a_caller_that_waits_gets_the_next_free_connection() -> None:
    async def work() -> None:
        pools = ConnectionPools(allow_private=True)
        async with database() as name:
            values = {"dsn": Secret(postgres().dsn(name))}

            async def use() -> int:
                async with pools.connection(values, 10, 1, 60) as connection:
                    return int(await connection.fetchval("SELECT pg_backend_pid()"))

            pids = await asyncio.gather(*(use() for _ in range(8)))
            assert len(set(pids)) == 1
            await pools.close()

    asyncio.run(work())
