// Runs one case on the emulated device and compares what it wrote with the reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "check/case.h"
#include "planning/choose.h"

namespace check {

struct Outcome {
  std::string failure;  // empty where all is well
  std::string plan;
};
// Throws std::invalid_argument where the case names a plan that the problem does not have.
Outcome run(const Case& item);

}  // namespace check
