"""Sharding strategies of the operators, for DTensor.

Each operator sums products of its arguments over some indices: n of the batch, i and o of the channels of input and
output. Where processes share an index, each holds its part of every tensor that has it; what they compute is a part of
a result that has the index too, a term of one that is summed over it (Partial), and the whole of any other. Along
depth, height and width neighbours would need each other's voxels, which DTensor does not provide for.

Importing DTensor takes a third of the time that PyTorch itself takes, so the strategies are registered when somebody
else imports it.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from convt3d._registrations import torch_internals
from convt3d._registrations.at_import import when_imported
from convt3d._registrations.registry import ops


@dataclass(frozen=True)
class _Indices:
    """The indices of an operator's tensors, a letter for each dimension that may be sharded, the first ones."""

    arguments: tuple[str | None, ...]  # of each argument up to the last tensor; None: no tensor
    results: tuple[tuple[str, str], ...]  # of each result, and what it is summed over
    addend: int | None = None  # the argument that is added to the sum, not a factor in it
    is_linear: bool = True  # False: of terms of the sum, the result is not the sum of the results


_Strategies = list[tuple[list[Any], list[Any]]]  # placements of the results, and of the arguments

_INPUT, _WEIGHT, _BIAS, _OUTPUT = "ni", "io", "o", "no"
_INDICES = {
    "conv_transpose3d": _Indices((_INPUT, _WEIGHT, _BIAS), ((_OUTPUT, "i"),), addend=2),
    "conv_transpose3d_relu": _Indices((_INPUT, _WEIGHT, _BIAS), ((_OUTPUT, "i"),), addend=2, is_linear=False),
    "conv_transpose3d_input_grad": _Indices((_OUTPUT, _WEIGHT, _OUTPUT), ((_INPUT, "o"),)),
    "conv_transpose3d_weight_grad": _Indices((_OUTPUT, _INPUT, None, _OUTPUT), ((_WEIGHT, "n"),)),
    "conv_transpose3d_bias_grad": _Indices((_OUTPUT + "dhw", _OUTPUT + "dhw"), ((_BIAS, "ndhw"),)),
    "conv_transpose3d_backward": _Indices(
        (_OUTPUT, _INPUT, _WEIGHT, _OUTPUT), ((_INPUT, "o"), (_WEIGHT, "n"), (_BIAS, "n"))
    ),
}


def _strategy(op: Any, indices: _Indices, placements: Any) -> Callable[..., _Strategies]:
    """What `register_sharding` takes: from a call's arguments, the placements of the results and of each tensor."""
    names = [argument.name for argument in op._schema.arguments]
    groups_at = names.index("groups") if "groups" in names else len(names)
    mask_at = _mask_at(op)

    def shared(index: str, arguments: list[str | None]) -> tuple[list[Any], list[Any]]:
        def placement(position: int, tensor: str | None) -> Any:
            if tensor is None:
                return None
            if index in tensor:
                return placements.Shard(tensor.index(index))
            is_term = position == indices.addend and index in indices.results[0][1]
            return placements.Partial() if is_term else placements.Replicate()

        def outcome(result: str, summed: str) -> Any:
            if index in result:
                return placements.Shard(result.index(index))
            return placements.Partial() if index in summed else placements.Replicate()

        return [outcome(*item) for item in indices.results], [placement(*item) for item in enumerate(arguments)]

    def strategy(*args: Any) -> _Strategies:
        arguments = [None if given is None else tensor for tensor, given in zip(indices.arguments, args, strict=False)]
        # A process that has some of the channels would need other groups than the argument says.
        one_group = len(args) <= groups_at or args[groups_at] == 1
        replicated = [None if tensor is None else placements.Replicate() for tensor in arguments]
        strategies = [
            ([placements.Replicate()] * len(indices.results), replicated),
            *(
                shared(index, arguments)
                for index in sorted({letter for tensor in arguments for letter in tensor or ""})
                if (one_group or index == "n") and (indices.is_linear or index in indices.results[0][0])
            ),
        ]
        return _of_wanted(strategies, args[mask_at] if len(args) > mask_at else None)

    return strategy


# The operators with a norm are shared along the batch alone: an image's statistics need its channels. Positions of
# the tensors that have a batch, and for each result whether it has one, or is a term of a sum over the batch.
_NORMS = {
    "conv_transpose3d_relu_group_norm": ((0,), (True,)),
    "conv_transpose3d_group_norm": ((0,), (True,)),
    "conv_transpose3d_group_norm_forward": ((0,), (True,) * 4),
    "group_norm_backward": ((0, 1, 2, 3), (True, False, False)),
}


def _norm_strategy(op: Any, batched: Any, results: Any, placements: Any) -> Callable[..., _Strategies]:
    is_tensor = ["Tensor" in str(argument.type) for argument in op._schema.arguments]
    mask_at = _mask_at(op)

    def strategy(*args: Any) -> _Strategies:
        tensors = [tensor and given is not None for tensor, given in zip(is_tensor, args, strict=False)]
        replicated = [placements.Replicate() if tensor else None for tensor in tensors]
        shared = [placements.Shard(0) if i in batched else placement for i, placement in enumerate(replicated)]
        return _of_wanted(
            [
                ([placements.Replicate() for _ in results], replicated),
                ([placements.Shard(0) if has_batch else placements.Partial() for has_batch in results], shared),
            ],
            args[mask_at] if len(args) > mask_at else None,
        )

    return strategy


def _mask_at(op: Any) -> int:
    """The position of the argument `output_mask`; past the last one where there is none."""
    names = [argument.name for argument in op._schema.arguments]
    return names.index("output_mask") if "output_mask" in names else len(names)


def _of_wanted(strategies: _Strategies, output_mask: Any) -> _Strategies:
    """Without placements of results that are None."""
    if output_mask is None:
        return strategies
    return [
        ([place if wanted else None for place, wanted in zip(results, output_mask, strict=True)], tensors)
        for results, tensors in strategies
    ]


def _register(dtensor: Any) -> None:
    """Registers the strategies. Where this PyTorch lacks what that takes, DTensor says that the operator has none."""
    with contextlib.suppress(ImportError, AttributeError, KeyError, TypeError):  # of helpers that moved or changed
        from torch.distributed.tensor.experimental import register_sharding

        cache = torch_internals.ShardingCache(dtensor)
        for name, indices in _INDICES.items():
            op = getattr(ops, name).default
            register_sharding(op)(_strategy(op, indices, dtensor))
            cache.distinguish_all_arguments(op)
        for name, (batched, results) in _NORMS.items():
            op = getattr(ops, name).default
            register_sharding(op)(_norm_strategy(op, batched, results, dtensor))
            cache.distinguish_all_arguments(op)


when_imported("torch.distributed.tensor", _register)
