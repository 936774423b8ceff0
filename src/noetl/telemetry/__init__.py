"""Observability: metrics for Prometheus, spans for OpenTelemetry, structured logs. It decides nothing."""
