// What a plan of the tensor-core engine has and has not: random cases are to meet each as often as the others.
#pragma once

#include <cstdint>
#include <vector>

#include "check/case.h"
#include "engines/wgmma/plan/plan.h"

namespace check {

// A number for each trait's value, alone and together with the ways of loading and storing.
std::vector<uint64_t> traits_of(const Case& item, const convt3d::WgmmaPlan& plan);

}  // namespace check
