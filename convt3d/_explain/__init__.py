"""`convt3d.explain`: what one call gets (`call`, by the library's `plan`), and every call of a model (`model`).

`recording` runs the model and sees its calls, `measuring` times them on a GPU, `report` is the table; `explanation` is
the public function. (A module named as a function of the package would hide it from tools that read the source.)
"""

from convt3d._explain.call import Explanation
from convt3d._explain.explanation import explain
from convt3d._explain.plan import OperatorPlan, forward_plan, layer_plan
from convt3d._explain.report import ExplainedCall, ModelExplanation

__all__ = [
    "ExplainedCall",
    "Explanation",
    "ModelExplanation",
    "OperatorPlan",
    "explain",
    "forward_plan",
    "layer_plan",
]
