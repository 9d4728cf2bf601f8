#include "check/case.h"

#include <array>
#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace check {
namespace {

template <typename Value>
using Words = std::initializer_list<std::pair<const char*, Value>>;

const Words<Operator> kOperators = {{"forward", Operator::kForward},
                                    {"input_grad", Operator::kInputGrad},
                                    {"weight_grad", Operator::kWeightGrad},
                                    {"bias_grad", Operator::kBiasGrad},
                                    {"backward", Operator::kBackward}};
const Words<Type> kTypes = {{"fp64", Type::kFloat64},    {"fp32", Type::kFloat32},      {"tf32", Type::kTf32},
                            {"fp16", Type::kFloat16},    {"bf16", Type::kBFloat16},     {"float64", Type::kFloat64},
                            {"float32", Type::kFloat32}, {"float16", Type::kFloat16},   {"half", Type::kFloat16},
                            {"double", Type::kFloat64},  {"bfloat16", Type::kBFloat16}, {"float", Type::kFloat32}};
const Words<Layout> kLayouts = {{"NCDHW", Layout::kNcdhw}, {"NDHWC", Layout::kNdhwc}};
const Words<Engine> kEngines = {{"auto", Engine::kAuto}, {"wgmma", Engine::kWgmma},
                                {"simt", Engine::kSimt}, {"depthwise", Engine::kDepthwise},
                                {"mma", Engine::kMma},   {"matmul", Engine::kMatmul}};

template <typename Value>
const char* word_of(const Words<Value>& words, Value value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "?";
}

template <typename Value>
Value value_of(const Words<Value>& words, const std::string& text) {
  std::string known;
  for (const auto& [word, meaning] : words) {
    if (text == word) return meaning;
    known += std::string(known.empty() ? "" : ", ") + word;
  }
  throw std::invalid_argument("'" + text + "' is none of " + known);
}

int64_t number_of(const std::string& text) {
  std::size_t used = 0;
  int64_t value = 0;
  try {
    value = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || used != text.size()) throw std::invalid_argument("'" + text + "' is no whole number");
  return value;
}

convt3d::Int3 three_of(const std::string& text) {
  convt3d::Int3 result{};
  std::istringstream stream(text);
  std::string part;
  std::size_t count = 0;
  while (std::getline(stream, part, ',')) {
    if (count == 3) throw std::invalid_argument("'" + text + "' has more than three numbers");
    result[count++] = number_of(part);
  }
  if (count != 3) throw std::invalid_argument("'" + text + "' has fewer than three numbers");
  return result;
}

std::string text_of(const convt3d::Int3& three) {
  return std::to_string(three[0]) + "," + std::to_string(three[1]) + "," + std::to_string(three[2]);
}

void check(const Case& item) {
  const convt3d::Problem& problem = item.problem;
  if (problem.batch < 1 || problem.groups < 1 || problem.in_channels < 1 || problem.out_channels < 1) {
    throw std::invalid_argument("n, cin, cout and groups are at least 1");
  }
  if (problem.in_channels % problem.groups != 0 || problem.out_channels % problem.groups != 0) {
    throw std::invalid_argument("cin and cout are multiples of groups");
  }
  if (item.result->order.size() + item.result->expanded.size() > 0 || item.result->before != Size5{}) {
    throw std::invalid_argument("a result is dense, or at an offset");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (problem.input_size[i] < 1 || problem.kernel_size[i] < 1 || problem.stride[i] < 1 || problem.dilation[i] < 1 ||
        problem.padding[i] < 0 || problem.output_padding[i] < 0 || problem.output_size(static_cast<int>(i)) < 1) {
      throw std::invalid_argument("size, kernel, stride, dilation and the output's size are at least 1");
    }
  }
}

void set(Case& item, const std::string& key, const std::string& value) {
  convt3d::Problem& problem = item.problem;
  const std::array<std::pair<const char*, int64_t*>, 4> numbers = {{{"n", &problem.batch},
                                                                    {"cin", &problem.in_channels},
                                                                    {"cout", &problem.out_channels},
                                                                    {"groups", &problem.groups}}};
  for (const auto& [name, number] : numbers) {
    if (key == name) {
      *number = number_of(value);
      return;
    }
  }
  const std::array<std::pair<const char*, convt3d::Int3*>, 6> threes = {{{"size", &problem.input_size},
                                                                         {"kernel", &problem.kernel_size},
                                                                         {"stride", &problem.stride},
                                                                         {"padding", &problem.padding},
                                                                         {"output_padding", &problem.output_padding},
                                                                         {"dilation", &problem.dilation}}};
  for (const auto& [name, three] : threes) {
    if (key == name) {
      *three = three_of(value);
      return;
    }
  }
  const std::array<std::pair<const char*, const Arrangement**>, 4> operands = {
      {{"first", &item.first}, {"second", &item.second}, {"mask", &item.mask}, {"result", &item.result}}};
  for (const auto& [name, operand] : operands) {
    if (key == name) {
      *operand = &arrangement_of(value);
      return;
    }
  }
  if (key == "op") {
    item.op = value_of(kOperators, value);
  } else if (key == "type") {
    item.type = value_of(kTypes, value);
  } else if (key == "layout") {
    item.layout = value_of(kLayouts, value);
  } else if (key == "bias") {
    item.bias = number_of(value) != 0;
  } else if (key == "relu") {
    item.relu = number_of(value) != 0;
  } else if (key == "wgmma") {
    item.wgmma = number_of(value) != 0;
  } else if (key == "engine") {
    item.engine = value_of(kEngines, value);
  } else if (key == "plan") {
    item.plan = static_cast<int>(number_of(value));
  } else if (key == "seed") {
    item.seed = static_cast<uint64_t>(number_of(value));
  } else {
    throw std::invalid_argument("unknown key '" + key + "'");
  }
}

}  // namespace

Size5 Case::input_size() const {
  return {problem.batch, problem.in_channels, problem.input_size[0], problem.input_size[1], problem.input_size[2]};
}
Size5 Case::weight_size() const {
  const convt3d::Int3& size = problem.kernel_size;
  return {problem.in_channels, problem.out_channels_per_group(), size[0], size[1], size[2]};
}
Size5 Case::output_size() const {
  const convt3d::Int3 size = problem.output_size();
  return {problem.batch, problem.out_channels, size[0], size[1], size[2]};
}

Layout Case::result_layout() const {
  if (type == Type::kFloat64) return Layout::kNcdhw;
  const auto is_last = [&](const Size5& size, const Arrangement& arrangement) {
    return has_channels_last_strides(size, place_of(size, layout, arrangement).stride);
  };
  const bool channels_last =
      is_last(first_size(), *first) || (op != Operator::kBiasGrad && is_last(second_size(), *second));
  return channels_last ? Layout::kNdhwc : Layout::kNcdhw;
}

convt3d::DataType Case::data_type() const {
  switch (type) {
    case Type::kFloat64:
      return convt3d::DataType::kFloat64;
    case Type::kFloat16:
      return convt3d::DataType::kFloat16;
    case Type::kBFloat16:
      return convt3d::DataType::kBFloat16;
    default:
      return convt3d::DataType::kFloat32;
  }
}

int Case::terms() const { return type == Type::kFloat32 ? 2 : 1; }

convt3d::Float32Mode Case::float32_mode() const {
  return type == Type::kTf32 ? convt3d::Float32Mode::kTf32 : convt3d::Float32Mode::kIeee;
}

std::string to_string(const Case& item) {
  const convt3d::Problem& problem = item.problem;
  std::ostringstream line;
  line << "op=" << word_of(kOperators, item.op) << " type=" << word_of(kTypes, item.type)
       << " layout=" << word_of(kLayouts, item.layout) << " n=" << problem.batch << " cin=" << problem.in_channels
       << " cout=" << problem.out_channels << " size=" << text_of(problem.input_size)
       << " kernel=" << text_of(problem.kernel_size) << " stride=" << text_of(problem.stride)
       << " padding=" << text_of(problem.padding) << " output_padding=" << text_of(problem.output_padding)
       << " dilation=" << text_of(problem.dilation) << " groups=" << problem.groups << " bias=" << item.bias
       << " relu=" << item.relu << " first=" << item.first->name << " second=" << item.second->name
       << " mask=" << item.mask->name << " result=" << item.result->name << " wgmma=" << item.wgmma
       << " engine=" << word_of(kEngines, item.engine) << " plan=" << item.plan << " seed=" << item.seed;
  return line.str();
}

Case parse_case(const std::string& line) {
  Case item;
  std::istringstream stream(line);
  std::string token;
  while (stream >> token) {
    const std::size_t equals = token.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("'" + token + "' is not key=value");
    try {
      set(item, token.substr(0, equals), token.substr(equals + 1));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(token + ": " + error.what());
    }
  }
  check(item);
  return item;
}

Operator parse_operator(const std::string& word) { return value_of(kOperators, word); }
Type parse_type(const std::string& word) { return value_of(kTypes, word); }
Engine parse_engine(const std::string& word) { return value_of(kEngines, word); }

}  // namespace check
