"""Results as files beside the database, each durable before a Ref to it exists."""
