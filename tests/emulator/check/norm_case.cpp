#include <array>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "check/norm.h"
#include "check/tensor.h"
#include "norm/plan.h"

namespace check {
namespace {

using convt3d::DataType;

constexpr const char* kValueWords[] = {"normal", "large_mean", "outlier_first", "constant"};

double number_of(const std::string& text) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) throw std::invalid_argument("'" + text + "' is no number");
  return value;
}

// Positions of an arrangement's tensor are equally far apart.
bool is_taken(const NormCase& item) {
  return convt3d::norm::has_position_stride(item.size, place_of(item.size, item.layout, *item.grad).stride);
}

}  // namespace

DataType NormCase::data_type() const {
  Case item;
  item.type = type;
  return item.data_type();
}
DataType NormCase::result_type() const {
  return float32_result && convt3d::element_size(data_type()) == 2 ? DataType::kFloat32 : data_type();
}
DataType NormCase::affine_type() const {
  return float32_affine && convt3d::element_size(data_type()) == 2 ? DataType::kFloat32 : data_type();
}

std::string to_string(const NormCase& item) {
  constexpr const char* kTypes[] = {"fp64", "fp32", "tf32", "fp16", "bf16"};
  std::ostringstream text;
  text << "norm=" << (item.backward ? "backward" : "forward") << " type=" << kTypes[static_cast<int>(item.type)]
       << " float32_result=" << item.float32_result << " float32_affine=" << item.float32_affine
       << " layout=" << (item.layout == Layout::kNcdhw ? "NCDHW" : "NDHWC") << " n=" << item.size[0]
       << " c=" << item.size[1] << " d=" << item.size[2] << " h=" << item.size[3] << " w=" << item.size[4]
       << " groups=" << item.groups << " weight=" << item.weight << " bias=" << item.bias << " relu=" << item.relu
       << " slope=" << item.slope << " in_place=" << item.in_place
       << " values=" << kValueWords[static_cast<int>(item.values)] << " input=" << item.input->name
       << " grad=" << item.grad->name << " seed=" << item.seed;
  return text.str();
}

NormCase parse_norm_case(const std::string& line) {
  NormCase item;
  std::istringstream stream(line);
  std::string token;
  while (stream >> token) {
    const std::size_t equal = token.find('=');
    if (equal == std::string::npos) throw std::invalid_argument("'" + token + "' is not key=value");
    const std::string key = token.substr(0, equal);
    const std::string value = token.substr(equal + 1);
    const auto number = [&] { return static_cast<int64_t>(number_of(value)); };
    if (key == "norm") {
      item.backward = value == "backward";
    } else if (key == "type") {
      item.type = parse_type(value);
    } else if (key == "layout") {
      item.layout = value == "NDHWC" ? Layout::kNdhwc : Layout::kNcdhw;
    } else if (key == "slope") {
      item.slope = number_of(value);
    } else if (key == "input") {
      item.input = &arrangement_of(value);
    } else if (key == "grad") {
      item.grad = &arrangement_of(value);
    } else if (key == "seed") {
      item.seed = std::stoull(value);
    } else if (key == "groups") {
      item.groups = number();
    } else if (key == "values") {
      int found = 0;
      while (found < 4 && value != kValueWords[found]) ++found;
      if (found == 4) throw std::invalid_argument("'" + value + "' is none of the values that can be drawn");
      item.values = static_cast<NormValues>(found);
    } else {
      const std::pair<const char*, bool*> flags[] = {{"float32_result", &item.float32_result},
                                                     {"float32_affine", &item.float32_affine},
                                                     {"weight", &item.weight},
                                                     {"bias", &item.bias},
                                                     {"relu", &item.relu},
                                                     {"in_place", &item.in_place}};
      const std::pair<const char*, int64_t*> sizes[] = {
          {"n", &item.size[0]}, {"c", &item.size[1]}, {"d", &item.size[2]}, {"h", &item.size[3]}, {"w", &item.size[4]}};
      bool known = false;
      for (const auto& [name, flag] : flags) {
        if (key == name) *flag = known = true, *flag = number() != 0;
      }
      for (const auto& [name, size] : sizes) {
        if (key == name) known = true, *size = number();
      }
      if (!known) throw std::invalid_argument("unknown key '" + key + "'");
    }
  }
  for (const int64_t size : item.size) {
    if (size < 1) throw std::invalid_argument("n, c, d, h and w are at least 1");
  }
  if (item.groups < 1 || item.size[1] % item.groups != 0) throw std::invalid_argument("c is a multiple of groups");
  if (item.backward && !is_taken(item))
    throw std::invalid_argument("grad has positions that are not equally far apart");
  return item;
}

NormCase draw_norm_case(uint64_t seed) {
  Random random(seed);
  NormCase item;
  item.seed = seed;
  constexpr Type kTypes[] = {Type::kFloat64, Type::kFloat32, Type::kFloat16, Type::kBFloat16};
  item.type = kTypes[between(random, 0, 3)];
  item.backward = chance(random, 60);
  item.float32_result = chance(random, 40);
  item.float32_affine = chance(random, 40);
  item.layout = chance(random, 50) ? Layout::kNcdhw : Layout::kNdhwc;
  item.groups = between(random, 1, 5);
  int64_t most_channels = chance(random, 15) ? 40 : chance(random, 50) ? 8 : 2;
  const int64_t positions = chance(random, 15) ? 1 : chance(random, 10) ? 24 : chance(random, 60) ? 8 : 4;
  if (positions == 1 && chance(random, 30)) most_channels = 600;
  item.size = {between(random, 1, 3), item.groups * between(random, 1, most_channels),
               between(random, 1, std::min<int64_t>(positions, 6)), between(random, 1, positions),
               between(random, 1, positions)};
  if (chance(random, 30)) item.size[4] = (item.size[4] + 7) / 8 * 8;
  item.weight = chance(random, 70);
  item.bias = chance(random, 70);
  item.relu = chance(random, 40);
  item.slope = chance(random, 40) ? 1 : chance(random, 50) ? 0 : 0.25;
  item.values = static_cast<NormValues>(between(random, 0, 3));
  if (item.values == NormValues::kLargeMean && item.type == Type::kBFloat16) item.values = NormValues::kNormal;
  item.in_place = !item.backward && item.result_type() == item.data_type() && chance(random, 50);
  if (chance(random, 20)) item.input = &arrangement_of(chance(random, 50) ? "offset" : "offset_four");
  if (item.backward && chance(random, 60)) {
    const auto& all = arrangements();
    item.grad = &all[static_cast<std::size_t>(between(random, 0, static_cast<int64_t>(all.size()) - 1))];
    if (!is_taken(item)) item.grad = &arrangement_of("dense");
    if (!item.grad->expanded.empty()) item.slope = 1;  // one value for elements on both sides of the corner
  }
  return item;
}

}  // namespace check
