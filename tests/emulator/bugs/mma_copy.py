"""Bugs in the engine mma: operands that are copied with their channels last."""

from __future__ import annotations

from bugs.bug import Bug

COPY = "device/channels_last_copy.cuh"
M = "engines/mma/"
MMA = "--engine mma"
BUGS = [
    Bug(
        "copy: channels of a matrix",
        COPY,
        "sizeof(T) == 2 ? lane / 8 * 2 + lane % 2 : 0",
        "sizeof(T) == 2 ? (BUG ? lane / 4 % 8 : lane / 8 * 2 + lane % 2) : 0",
        MMA + " --type fp16",
    ),
    Bug(
        "copy: words of a piece",
        COPY,
        "(c << log_strips()) * 16",
        "((BUG ? 3 - c : c) << log_strips()) * 16",
        MMA + " --type tf32",
    ),
    Bug(
        "copy: strips beside each other",
        COPY,
        "strip + (beside >> log_pieces << log_apart)",
        "strip + (BUG ? 0 : beside >> log_pieces << log_apart)",
        MMA,
    ),
    Bug("copy: last position of a strip", COPY, "in_strip >= target.count", "in_strip >= target.count - BUG", MMA),
    Bug(
        "copy: strips at odd addresses",
        COPY,
        "is_odd ? word[2] >> 16 : half[1]",
        "is_odd ? word[2] >> (BUG ? 0 : 16) : half[1]",
        MMA + " --type bf16",
    ),
    Bug("copy: strips with fewer positions", COPY, "value[i] = i < count", "value[i] = i + BUG < count", MMA),
    Bug(
        "copy: mask of strips",
        COPY,
        "masked_word<T>(values.x, mask.x)",
        "(BUG && sizeof(T) == 4 ? values.x : masked_word<T>(values.x, mask.x))",
        MMA + " --type tf32",
    ),
    Bug(
        "copy: a NaN in the mask of strips",
        COPY,
        "masked_word<T>(values.w, mask.w)};",
        "masked_word<T>(values.w, mask.w)};\n"
        "if (BUG && sizeof(T) == 2) {\n"
        "const uint32_t nan[4] = {mask.x, mask.y, mask.z, mask.w};\n"
        "uint32_t* const word = &values.x;\n"
        "for (int i = 0; i < 4; ++i) word[i] &= halves_at_most_zero<T>(nan[i] ^ 0x80008000);\n}",
        MMA + " --type fp16 --operator input_grad",
    ),
    Bug(
        "copy: rows of an image",
        COPY,
        "strip.d * static_cast<int32_t>(params_.runs_of_depth.value) + strip.h;",
        "strip.d * static_cast<int32_t>(BUG ? 1 : params_.runs_of_depth.value) + strip.h;",
        MMA,
    ),
    Bug(
        "copy: groups",
        COPY,
        "return {group * params_.channels",
        "return {(BUG ? 0 : group) * params_.channels",
        MMA,
    ),
    Bug(
        "copy: gathered quads",
        COPY,
        "mask, q * kQuad, channels.left",
        "mask, BUG ? 0 : q * kQuad, channels.left",
        MMA + " --type fp16",
    ),
    Bug(
        "copy: depths that a portion reads",
        "core/channels_copy.cpp",
        "(end_box - 1) * step + last + 1",
        "(end_box - 1) * step + last + (BUG ? 0 : 1)",
        MMA,
    ),
    Bug(
        "copy: where a portion's images are",
        "device/copied_source.cuh",
        "range.first_image * source.stride.n",
        "(BUG ? 0 : range.first_image) * source.stride.n",
        MMA,
    ),
    Bug(
        "copy: which depths a portion has",
        "device/run_channels_copy.cuh",
        "range.depths.first * stride.d;",
        "(BUG ? 0 : range.depths.first) * stride.d;",
        MMA,
    ),
    Bug(
        "copy: boxes of a portion",
        M + "correlation/kernel.cuh",
        "share.first_box = params.first_box + place.walker;",
        "share.first_box = (BUG ? 0 : params.first_box) + place.walker;",
        MMA + " --operator input_grad",
    ),
    Bug(
        "copy: channels of a group in the copy",
        M + "correlation/kernel.cuh",
        "int64_t{place.group} * params.source_group;",
        "int64_t{place.group} * (BUG ? params.k_channels : params.source_group);",
        MMA + " --operator forward",
    ),
    Bug(
        "copy: sums of the portion before",
        M + "weight_grad/kernel.cuh",
        "!params_.joins && share",
        "(BUG || !params_.joins) && share",
        MMA + " --operator weight_grad",
    ),
    Bug(
        "copy: boxes of a portion's splits",
        M + "weight_grad/tables.cuh",
        "int32_t rest = params.first_box +",
        "int32_t rest = (BUG ? 0 : params.first_box) +",
        MMA + " --operator weight_grad",
    ),
]
