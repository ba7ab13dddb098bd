"""The library's version, apart from everything else so that any module can import it."""

__version__ = "0.2.0"
