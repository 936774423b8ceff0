"""What the distributed house keeps in NATS JetStream; nats-py is imported only when it is configured."""
