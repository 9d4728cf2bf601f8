#include "check/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <vector>

namespace check {

double Bounds::of(double value, double magnitude, double terms) const {
  const bool wide = type == convt3d::DataType::kFloat64;
  const double accumulation = std::ldexp(8 * std::sqrt(std::max(terms, 1.0)), wide ? -53 : -24);
  const double rounding = std::ldexp(1.0, wide                                  ? -53
                                          : type == convt3d::DataType::kFloat32 ? -24
                                          : type == convt3d::DataType::kFloat16 ? -11
                                                                                : -8);
  const double tiny = type == convt3d::DataType::kFloat16 ? std::ldexp(1.0, -14) : std::ldexp(1.0, -126);
  return 2 * rounding * std::fabs(value) + std::max(accumulation, split ? std::ldexp(1.0, -19) : 0.0) * magnitude +
         tiny;
}

std::string compare(const Tensor& tensor, const Expected& expected, const Bounds& bounds) {
  const std::vector<double> actual = tensor.values();
  std::ostringstream text;
  int64_t wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double value = expected.value[i];
    double bound = bounds.exact ? 0 : bounds.of(value, expected.magnitude[i], expected.terms);
    if (!bounds.exact && !expected.further.empty()) bound += expected.further[i];
    const double nearest = bounds.exact ? rounded(value, bounds.type) : value;
    if (std::fabs(actual[i] - nearest) <= bound) continue;
    if (wrong++ > 0) continue;
    const Size5& size = tensor.size();
    int64_t rest = static_cast<int64_t>(i);
    Size5 at{};
    for (std::size_t axis = 5; axis-- > 0; rest /= size[axis]) at[axis] = rest % size[axis];
    text << "element (" << at[0] << ", " << at[1] << ", " << at[2] << ", " << at[3] << ", " << at[4] << ") is "
         << actual[i] << ", not " << nearest;
    if (bound > 0) text << " within " << bound;
  }
  if (wrong > 0) text << "; " << wrong << " of " << actual.size() << " are wrong";
  return text.str();
}

}  // namespace check
