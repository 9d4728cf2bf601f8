// A bound below the cost of every plan that an engine may have for a call, found without a search: choose() searches no
// engine that it shows cannot win. Knows nothing of torch or CUDA.
#pragma once

#include "planning/choose.h"

namespace convt3d {

// Of a forward or a single gradient, by an engine that searches: each number that is needed is read from memory once
// and each result written once, as fast as kernels of the engine do it at best; or the products, where these take
// longer; and the launches. Nothing of the other engines, whose plans are quickly made.
double least_cost_ms(const PlanQuery& query, Engine engine);

}  // namespace convt3d
