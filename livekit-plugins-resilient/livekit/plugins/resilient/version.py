"""Version of this package: the upstream release it is built from, then our own number."""

__version__ = "1.8.9.1"
