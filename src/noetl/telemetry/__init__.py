"""How the house is: numbers for Prometheus, spans for OpenTelemetry, lines for people. It decides nothing."""
