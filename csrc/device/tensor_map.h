// Descriptions of tensors for TMA ("tensor maps"), made by the driver.
#pragma once

#include <cuda.h>

#include "device/tensor_box.h"

namespace convt3d {

// False where the box is not describable() or the driver refuses it.
bool encode(const TensorBox& box, CUtensorMap& map);

}  // namespace convt3d
