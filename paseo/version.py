"""The version, said once; `pyproject.toml` repeats it, and a test compares."""

__version__ = "0.1.0"
