"""W1–W4 and W6 on a server of `noetl up` that runs the tasks itself: PostgreSQL, NATS and one process of NoETL."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks import distributed
from benchmarks.peers.noetl_distributed import Distributed, main

if __name__ == "__main__":
    with distributed.open_trial_cluster(Path(sys.argv[1]), workers=0, server_slots=2 * distributed.SLOTS) as told:
        asyncio.run(main(Distributed(told)))
