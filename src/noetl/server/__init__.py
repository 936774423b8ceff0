"""The HTTP door of control: routes over the ports, nothing that decides, and no adapter known by name."""
