// What model.cpp reads: a case in a line, as costs.py writes it.
#pragma once

#include <istream>
#include <string>

#include "core/operands.h"
#include "core/problem.h"
#include "engines/wgmma/plan/plan.h"

struct Case {
  std::string name;
  std::string precision;
  std::string layout;
  convt3d::Problem problem;
  bool bias = false;

  bool channels_last() const { return layout == "NDHWC"; }
  bool half() const { return precision == "fp16"; }
  convt3d::Operands operands() const { return convt3d::dense_operands(problem, channels_last()); }
  convt3d::WgmmaElement element() const { return {half() ? 2 : 4, precision == "fp32" ? 2 : 1}; }
};

inline std::istream& operator>>(std::istream& in, Case& value) {
  convt3d::Problem& p = value.problem;
  in >> value.name >> value.precision >> value.layout >> p.batch >> p.in_channels >> p.out_channels >> p.groups;
  for (convt3d::Int3* sizes : {&p.input_size, &p.kernel_size, &p.stride, &p.padding, &p.output_padding, &p.dilation}) {
    for (int64_t& size : *sizes) in >> size;
  }
  return in >> value.bias;
}
