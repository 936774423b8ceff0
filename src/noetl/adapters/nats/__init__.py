"""The transport and the work queue of a cluster, on NATS. nats-py is imported only if it is configured."""
