// Decides who may ask, by the host that a request names and by its token. These are pure functions,
// so that they can be tested without a socket.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mfu {

// "127.0.0.1:9464" → "127.0.0.1", "[::1]:80" → "::1", "Localhost" → "localhost".
std::string host_of(std::string_view host_header);
// Whether it is localhost, 127.x.y.z or ::1, which no other site can be called. This stops a page
// of another site, whose name was rebound to this address, from reading what is served here.
bool is_loopback_name(std::string_view host);
// "%2Fa%20b" → "/a b". None if it is malformed or holds a 0 byte.
std::optional<std::string> percent_decoded(std::string_view text);
// The value of `name` in "a=1&token=x", decoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);
// Compares in a time that does not depend on where the two differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace mfu
