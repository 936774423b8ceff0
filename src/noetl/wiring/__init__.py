"""URLs in, a running house out: embedded on one file, or a server and workers on PostgreSQL and NATS.

Whoever runs one playbook loads the embedded house only.
"""

from noetl.wiring.embedded import GRACE_S, Disk, House, open_disk, open_house, record_refused, relax_collector

__all__ = ["GRACE_S", "Disk", "House", "open_disk", "open_house", "record_refused", "relax_collector"]
