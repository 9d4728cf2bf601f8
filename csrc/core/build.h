// What this library was built for.
#pragma once

#include <string>

namespace convt3d {

// The architectures compiled into this library, e.g. "sm_80 sm_90a compute_90".
std::string compiled_architectures();

}  // namespace convt3d
