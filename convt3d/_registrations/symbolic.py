"""Conditions on sizes that may be symbolic."""

from typing import Any


def holds(condition: Any, *, when_unknown: bool) -> bool:
    """`condition` as a bool, and `when_unknown` where it depends on a size that is known only at run time."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true  # heavy, and needed only to trace

    return bool(guard_or_true(condition) if when_unknown else guard_or_false(condition))
