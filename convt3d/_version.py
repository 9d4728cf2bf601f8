"""The version: the build reads it from here into the metadata and the compiled library."""

__version__ = "0.1.0"
