// Traits of the plans on Hopper's matrix units.
#pragma once

#include "core/traits.h"
#include "engines/wgmma/plan/plan.h"

namespace convt3d {

Traits wgmma_traits(const WgmmaPlan& plan, const ForwardArguments& arguments);
// Of an input gradient: what is not the forward's that it is, and what meets the other order of the taps.
Traits wgmma_input_grad_traits(const WgmmaPlan& plan, const ForwardArguments& arguments);

}  // namespace convt3d
