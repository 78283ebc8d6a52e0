#include "serve/address.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "mfu/sink.h"

namespace mfu {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string host_of(std::string_view host_header) {
  // Accept HOST or HOST:PORT, but not what only begins like it ("[::1].evil.com",
  // "localhost:80.evil.com").
  std::size_t end = host_header.starts_with('[') ? host_header.find(']') : host_header.find(':');
  std::string_view host = host_header.substr(0, end), rest;
  if (host_header.starts_with('[')) {
    if (end == std::string_view::npos) return "";
    host = host_header.substr(1, end - 1);
    ++end;
  }
  rest = end < host_header.size() ? host_header.substr(end) : "";
  bool port = rest.starts_with(':') && rest.size() <= 6 &&
              rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!rest.empty() && !port) return "";
  std::string lower(host);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_loopback_name(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // Accept all of 127.0.0.0/8, but not what only begins like it ("127.0.0.1.example").
  if (!host.starts_with("127.")) return false;
  return std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); }) &&
         std::ranges::count(host, '.') == 3;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      int high = hex_digit(text[i + 1]);
      int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
  }
  return decoded;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    return percent_decoded(equals == std::string_view::npos ? "" : pair.substr(equals + 1));
  }
  return std::nullopt;
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

namespace {

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::optional<std::uint16_t> port = parse_port(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (!port || host.find('/') != std::string_view::npos) return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";
  return ListenAddress{std::string(host), *port};
}

std::uint16_t local_rank_port(std::uint16_t port) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    std::string_view text = value;
    std::uint16_t rank = 0;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    return rank < 1024 && port <= 65535 - rank ? static_cast<std::uint16_t>(port + rank) : port;
  }
  return port;
}

}  // namespace mfu
