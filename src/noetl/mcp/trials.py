"""Tests and what-ifs on a server, which runs them in processes with limits of memory and time."""

from __future__ import annotations

from typing import Final

from noetl.api.trials import TestsRequest, TestsResponse, WhatIfRequest, WhatIfResponse
from noetl.client.http import HttpTransport

WAIT_S: Final = 120.0  # for the response: others may be before it


class ServerTrials:
    """Requests for one caller: the server decides what the caller may read."""

    def __init__(self, http: HttpTransport) -> None:
        self._http = http

    async def test(self, request: TestsRequest) -> TestsResponse:
        return (await self._http.request("POST", "/playbooks/test", body=request, wait_s=WAIT_S)).read(TestsResponse)

    async def what_if(self, request: WhatIfRequest) -> WhatIfResponse:
        response = await self._http.request("POST", "/playbooks/what-if", body=request, wait_s=WAIT_S)
        return response.read(WhatIfResponse)
