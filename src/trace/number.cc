#include "trace/number.h"

#include <algorithm>

namespace mfu {
namespace {

// How many digits are kept: what an int64 of nanoseconds can hold, and one to round by.
constexpr int kMostDigits = 20;
constexpr std::int64_t kMostExponent = 400;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view bare_token(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"') {
    token = token.substr(1, token.size() - 2);
  }
  while (!token.empty() && token.front() == ' ') token.remove_prefix(1);
  while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
  return token;
}

// value = digits × 10^exponent
struct Decimal {
  bool negative = false;
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
};

std::optional<std::int64_t> parse_exponent(std::string_view text) {
  bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    value = std::min<std::int64_t>(value * 10 + (c - '0'), 10 * kMostExponent);
  }
  return negative ? -value : value;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal decimal;
  std::size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+'))
    decimal.negative = text[at++] == '-';
  int kept = 0;
  bool any = false, fraction = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (!is_digit(text[at])) break;
    any = true;
    if (kept < kMostDigits - 1) {
      decimal.digits = decimal.digits * 10 + static_cast<std::uint64_t>(text[at] - '0');
      kept += decimal.digits != 0;
      decimal.exponent -= fraction;
    } else {
      decimal.exponent += !fraction;
    }
  }
  if (!any) return std::nullopt;
  if (at == text.size()) return decimal;
  if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
  std::optional<std::int64_t> exponent = parse_exponent(text.substr(at + 1));
  if (!exponent) return std::nullopt;
  decimal.exponent += *exponent;
  return decimal;
}

// digits × 10^exponent as an integer, rounded half away from zero.
std::optional<std::int64_t> to_integer(Decimal decimal) {
  std::uint64_t value = decimal.digits;
  std::int64_t exponent = decimal.exponent;
  if (value == 0) return 0;
  for (; exponent > 0; --exponent) {
    if (value > UINT64_MAX / 10) return std::nullopt;
    value *= 10;
  }
  std::uint64_t last = 0;
  for (; exponent < 0 && (value != 0 || last != 0); ++exponent) {
    last = value % 10;
    value /= 10;
  }
  value += last >= 5;
  if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  auto magnitude = static_cast<std::int64_t>(value);
  return decimal.negative ? -magnitude : magnitude;
}

}  // namespace

std::optional<std::int64_t> parse_ns(std::string_view microseconds) {
  // The usual form is tried first: up to 15 digits, and up to 3 after the point.
  std::uint64_t value = 0;
  std::size_t at = 0, size = microseconds.size();
  while (at < size && is_digit(microseconds[at])) {
    value = value * 10 + static_cast<std::uint64_t>(microseconds[at++] - '0');
  }
  if (at > 0 && at <= 16 && value <= INT64_MAX / 1000) {
    if (at == size) return static_cast<std::int64_t>(value * 1000);
    if (microseconds[at] == '.' && size - at <= 4 && at <= 15) {
      std::size_t places = 0;
      for (++at; at < size && is_digit(microseconds[at]); ++at, ++places) {
        value = value * 10 + static_cast<std::uint64_t>(microseconds[at] - '0');
      }
      constexpr std::uint64_t kScale[] = {1000, 100, 10, 1};
      if (at == size) return static_cast<std::int64_t>(value * kScale[places]);
    }
  }
  std::optional<Decimal> decimal = parse_decimal(bare_token(microseconds));
  if (!decimal) return std::nullopt;
  decimal->exponent += 3;
  if (decimal->exponent > kMostExponent && decimal->digits != 0) return std::nullopt;
  return to_integer(*decimal);
}

std::optional<std::int64_t> parse_id(std::string_view token) {
  constexpr std::size_t kSurelyFits = 18;
  if (token.size() - 1 < kSurelyFits) {  // the usual form: a few digits
    std::uint64_t digits = 0;
    bool plain = true;
    for (char c : token) {
      auto digit = static_cast<unsigned char>(c - '0');
      plain &= digit <= 9;
      digits = digits * 10 + digit;
    }
    if (plain) return static_cast<std::int64_t>(digits);
  }
  token = bare_token(token);
  bool negative = !token.empty() && token[0] == '-';
  std::uint64_t value = 0;
  std::size_t at = negative ? 1 : 0;
  if (at == token.size()) return std::nullopt;
  for (; at < token.size() && is_digit(token[at]); ++at) {
    value = value * 10 + static_cast<std::uint64_t>(token[at] - '0');
  }
  if (at == token.size()) return static_cast<std::int64_t>(negative ? 0 - value : value);
  std::optional<Decimal> decimal = parse_decimal(token);
  return decimal ? to_integer(*decimal) : std::nullopt;
}

}  // namespace mfu
