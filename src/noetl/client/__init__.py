"""A client of a NoETL server: the operations of its API, and the ports that read its log, lists and results.

`async with Client(url, token) as client: result = await client.run("examples/hello", {"name": "x"})`.
"""

from noetl.api.executions import CommandResponse, StartResponse, StreamEnd, StreamLine
from noetl.api.playbooks import RegisterResponse
from noetl.client.client import Client, fact_of
from noetl.client.http import HttpTransport, PlaybookRefused, address
from noetl.client.remote_ports import RemoteCatalog, RemoteListing, RemoteResults, RemoteStore

__all__ = [
    "Client", "CommandResponse", "HttpTransport", "PlaybookRefused", "RegisterResponse", "RemoteCatalog",
    "RemoteListing", "RemoteResults", "RemoteStore", "StartResponse", "StreamEnd", "StreamLine", "address",
    "fact_of",
]  # fmt: skip
