"""Conversion of whole models to the modules of the package, and back.

`layers` changes the class of a module; `graph` proves what may be fused, with `calls` (what a `forward` does with its
children), `source` (which functions can be read) and `references` (what else holds a module); `folded` holds the
modules that carry a BatchNorm, `normed` those that compute a norm; `report` tells what was done; `conversion` puts them
together.
"""

from convt3d._convert.conversion import convert, revert
from convt3d._convert.report import Layer, Report

__all__ = ["Layer", "Report", "convert", "revert"]
