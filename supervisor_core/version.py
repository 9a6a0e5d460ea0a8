"""The version, in one place: the package's metadata and `supervisor --version` both read it here."""

__version__ = "1.0.0"
