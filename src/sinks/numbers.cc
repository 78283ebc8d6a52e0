#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/text.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

// Four significant digits, thousands separated, no trailing zeros after the point: 1,979  989.4
// 82.6  0.5
std::string digits(double value) {
  int whole = value < 1 ? 1 : static_cast<int>(std::floor(std::log10(value))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, 4 - whole));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t at = point; at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string scaled(double value, std::string_view unit) {
  struct Scale {
    double from, by;
    std::string_view prefix;
  };
  constexpr std::array<Scale, 5> kScales = {
      {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e3, 1e3, "k"}, {0, 1, ""}}};
  for (const Scale& scale : kScales) {
    if (value >= scale.from)
      return fmt::format("{} {}{}", digits(value / scale.by), scale.prefix, unit);
  }
  return fmt::format("{} {}", value, unit);
}

}  // namespace

std::string rate_text(FlopRate rate, Precision precision) {
  bool integers = precision == Precision::int8 || precision == Precision::int4;
  return scaled(rate.per_s, integers ? "OP/s" : "FLOP/s");
}

std::string count_text(FlopCount count) {
  double value = count.to_double();
  if (value >= 1e21) return fmt::format("{:.4g} FLOP", value);
  if (value >= 1e18) return fmt::format("{:.4g} EFLOP", value / 1e18);
  if (value >= 1e15) return digits(value / 1e15) + " PFLOP";
  return scaled(value, "FLOP");
}

std::string grouped(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string bandwidth_text(ByteRate rate) {
  return scaled(rate.per_s, "B/s");
}

std::string bytes_text(Bytes bytes) {
  // Gigabytes are used up to a few thousand: 141 GB, 1,152 GB.
  if (bytes.count >= 1'000'000'000) return digits(static_cast<double>(bytes.count) / 1e9) + " GB";
  return scaled(static_cast<double>(bytes.count), "B");
}

std::string duration_text(double ns) {
  if (std::fabs(ns) >= 7200e9) return fmt::format("{:.1f} h", ns / 3600e9);
  if (std::fabs(ns) >= 120e9) return fmt::format("{:.1f} min", ns / 60e9);
  if (std::fabs(ns) >= 1e9) return fmt::format("{:.3g} s", ns * 1e-9);
  if (std::fabs(ns) >= 1e8) return fmt::format("{:.0f} ms", ns * 1e-6);
  if (std::fabs(ns) >= 1e6) return fmt::format("{:.3g} ms", ns * 1e-6);
  if (std::fabs(ns) >= 1e3) return fmt::format("{:.3g} µs", ns * 1e-3);
  return fmt::format("{:.0f} ns", ns);
}

}  // namespace mfu
