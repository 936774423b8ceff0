"""One outside thing each: what a port asks for, made of a library. Only wiring and tests know them."""
