"""Which partitions are ours: taken and kept by leases in the store, given up when one may have run out."""

from __future__ import annotations

from noetl.control.executions import Control
from noetl.errors import Unavailable
from noetl.ids import partition_of


class Ownership:
    """One server's share. It prefers every n-th partition, and takes the others when nobody has them."""

    def __init__(self, control: Control, server: str, share: tuple[int, int], ttl_s: float) -> None:
        self.control = control
        self.server = server
        self.share = share  # (our number, number of servers)
        self.ttl_s = ttl_s
        self._kept: dict[int, float] = {}
        self._rounds = 0

    async def keep(self) -> None:
        """One round: keep what is ours, take what is nobody's."""
        number, servers = self.share
        self._rounds += 1
        for partition in range(self.control.settings.partitions):
            preferred = partition % servers == number
            if preferred or partition in self.control.owned or self._rounds % 4 == 0:
                await self._keep_one(partition)

    async def _keep_one(self, partition: int) -> None:
        asked = self.control.clock.monotonic()
        try:
            owned = await self.control.store.own(partition, self.server, self.ttl_s)
        except Unavailable:
            # The lease runs on the store's time; counted from before we asked, ours ends no later than it.
            if asked > self._kept.get(partition, asked) + self.ttl_s:
                self._lose(partition)
            return
        if owned is None:
            self._lose(partition)
            return
        self.control.set_time(owned.at)
        self._kept[partition] = asked
        if self.control.owned.get(partition) != owned.epoch:
            self._lose(partition)
            self.control.owned[partition] = owned.epoch

    def _lose(self, partition: int) -> None:
        self.control.owned.pop(partition, None)
        partitions = self.control.settings.partitions
        for execution_id in list(self.control.lives):
            if partition_of(execution_id, partitions) == partition:
                del self.control.lives[execution_id]
