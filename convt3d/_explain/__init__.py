"""`convt3d.explain`: what one call gets (`call`), and every call of a model (`model`).

`recording` runs the model and sees its calls, `measuring` times them on a GPU, `report` is the table.
"""

from convt3d._explain.call import Explanation, ForwardPlan, forward_plan, has_wgmma
from convt3d._explain.explain import explain
from convt3d._explain.report import ExplainedCall, ModelExplanation

__all__ = [
    "ExplainedCall",
    "Explanation",
    "ForwardPlan",
    "ModelExplanation",
    "explain",
    "forward_plan",
    "has_wgmma",
]
