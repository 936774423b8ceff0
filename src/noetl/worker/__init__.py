"""Claims a frame, runs it under its grant, reports after every effect, and knows nothing of other frames."""
