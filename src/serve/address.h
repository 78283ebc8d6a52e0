// Who may ask: the host a request names, and its token. Pure functions, so that they can be tested
// without a socket.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mfu {

// "127.0.0.1:9464" → "127.0.0.1", "[::1]:80" → "::1", "Localhost" → "localhost".
std::string host_of(std::string_view host_header);
// localhost, 127.x.y.z, ::1: names no other site can take. Keeps a page of another site, whose own
// name was rebound to this address, from reading what is served here.
bool is_loopback_name(std::string_view host);
// "%2Fa%20b" → "/a b"; none where it is malformed or holds a 0 byte.
std::optional<std::string> percent_decoded(std::string_view text);
// The value of `name` in "a=1&token=x", decoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);
// In time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace mfu
