// Why the last call into PyTorch failed.
#pragma once

#include <string>

namespace convt3d {

// The text of the last exception that the stable ABI turned into an error code on this thread. Empty before torch 2.13,
// which prints the text on stderr instead and keeps no copy.
std::string torch_error();

}  // namespace convt3d
