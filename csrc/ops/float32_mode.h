// PyTorch's switches for TF32 in convolutions, as they stand at the call.
#pragma once

#include "core/call.h"

namespace convt3d {

// torch.backends.cudnn.allow_tf32 and torch.backends.cudnn.conv.fp32_precision. The stable ABI has no function for
// them; where this torch does not have the one that is asked instead, float32 stays float32.
Float32Mode float32_mode();

}  // namespace convt3d
