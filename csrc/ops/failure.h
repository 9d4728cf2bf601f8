// The text of a failed check: "<operator>: <argument> must be <what is valid>, got <value>".
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace convt3d {

template <typename... Parts>
[[noreturn]] void fail(const char* op, const Parts&... parts) {
  std::ostringstream text;
  text << op << ": ";
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

template <typename Values>
std::string format(const Values& values) {
  std::ostringstream text;
  text << "(";
  const char* separator = "";
  for (int64_t value : values) {
    text << separator << value;
    separator = ", ";
  }
  text << ")";
  return text.str();
}

}  // namespace convt3d
