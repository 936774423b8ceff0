"""A NoETL server, from outside: the verbs of its API, and the ports that the command line reads from.

`async with Client(url, token) as client: run = await client.run("examples/hello", {"name": "x"})`.
"""

from noetl.client.answers import CredentialSeen, Ended, PlaybookRefused, Registered, Told
from noetl.client.client import Client
from noetl.client.http import Wire, address
from noetl.client.remote_ports import ServerCatalog, ServerListing, ServerResults, ServerStore
from noetl.client.stream import Line, fact_of

__all__ = [
    "Client",
    "CredentialSeen",
    "Ended",
    "Line",
    "PlaybookRefused",
    "Registered",
    "ServerCatalog",
    "ServerListing",
    "ServerResults",
    "ServerStore",
    "Told",
    "Wire",
    "address",
    "fact_of",
]
