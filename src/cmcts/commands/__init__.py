"""One file a command: a frozen dataclass whose fields are the options and whose `run` does the work."""
