"""The tests; a package, so that one can start a helper as ``python -m tests.<module>``."""
