// Run-time values (tile, mask) -> template arguments.
#pragma once

#include <type_traits>

#include "engines/simt/plan.h"

namespace convt3d {

template <TileShape kShape>
using ShapeConstant = std::integral_constant<TileShape, kShape>;

template <typename Function>
void with_tile(TileShape shape, Function&& function) {
  switch (shape) {
    case TileShape::kNarrow:
      return function(ShapeConstant<TileShape::kNarrow>());
    case TileShape::kSlim:
      return function(ShapeConstant<TileShape::kSlim>());
    case TileShape::kMedium:
      return function(ShapeConstant<TileShape::kMedium>());
    case TileShape::kWide:
      return function(ShapeConstant<TileShape::kWide>());
  }
}

template <typename Function>
void with_bool(bool value, Function&& function) {
  if (value) {
    function(std::true_type());
  } else {
    function(std::false_type());
  }
}

}  // namespace convt3d
