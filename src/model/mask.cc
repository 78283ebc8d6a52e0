#include "model/mask.h"

#include <algorithm>

namespace mfu {
namespace {

Uint128 triangle(Uint128 n) {
  return n * (n + 1) / 2;
}

Uint128 causal_pairs(const Span& span) {
  return static_cast<Uint128>(span.length) * span.context + triangle(span.length);
}

// Σ_{i=1..n} min(c + i, w): a causal triangle until the window is full, then w per token.
Uint128 window_pairs(const Span& span, std::uint64_t window) {
  std::uint64_t room = window > span.context ? window - span.context : 0;
  std::uint64_t growing = std::min(room, span.length);
  return static_cast<Uint128>(growing) * span.context + triangle(growing) +
         static_cast<Uint128>(span.length - growing) * window;
}

// Σ_{p<x} (p mod C + 1): complete chunks are triangles.
Uint128 chunked_below(std::uint64_t end, std::uint64_t chunk) {
  return static_cast<Uint128>(end / chunk) * triangle(chunk) + triangle(end % chunk);
}

// The token at position j sees max(j + 1, P) tokens, where P is the part of the prefix that exists.
Uint128 prefix_pairs(const Span& span, std::uint64_t prefix) {
  std::uint64_t present = std::min(prefix, span.context + span.length);
  if (present <= span.context) return causal_pairs(span);
  std::uint64_t inside = present - span.context;
  return static_cast<Uint128>(inside) * present + triangle(span.context + span.length) -
         triangle(present);
}

// n (2h + 1), less h (h + 1) which the two ends lack.
Uint128 local_pairs(std::uint64_t length, std::uint64_t reach) {
  if (length == 0) return 0;
  if (reach >= length - 1) return static_cast<Uint128>(length) * length;
  return static_cast<Uint128>(length) * (2 * static_cast<Uint128>(reach) + 1) -
         static_cast<Uint128>(reach) * (static_cast<Uint128>(reach) + 1);
}

Uint128 squares_along(std::uint64_t length, std::uint64_t side) {
  Uint128 rest = length % side;
  return static_cast<Uint128>(length / side) * side * side + rest * rest;
}

}  // namespace

Uint128 attended_pairs(const Mask& mask, const Span& span, std::uint64_t encoder) {
  switch (mask.kind) {
    case MaskKind::causal:
      return causal_pairs(span);
    case MaskKind::window:
    case MaskKind::top_k:
      return window_pairs(span, mask.size);
    case MaskKind::chunked:
      return chunked_below(span.context + span.length, mask.size) -
             chunked_below(span.context, mask.size);
    case MaskKind::prefix:
      return prefix_pairs(span, mask.size);
    case MaskKind::bidirectional:
    case MaskKind::blocks:
      return static_cast<Uint128>(span.length) * (span.context + span.length);
    case MaskKind::local:
      return local_pairs(span.length, mask.size);
    case MaskKind::cross:
      return static_cast<Uint128>(span.length) * encoder;
    case MaskKind::joint:
      return static_cast<Uint128>(span.length + encoder) * (span.length + encoder);
    case MaskKind::pooled:
      return 0;
  }
  return 0;
}

std::uint64_t held_keys(const Mask& mask, const Span& span, std::uint64_t encoder) {
  if (mask.kind == MaskKind::cross) return encoder;
  bool sliding = mask.kind == MaskKind::window || mask.kind == MaskKind::chunked;
  std::uint64_t kept = sliding ? std::min(span.context, mask.size - 1) : span.context;
  return kept + span.length;
}

Uint128 block_pairs(std::uint64_t height, std::uint64_t width, std::uint64_t side) {
  return squares_along(height, side) * squares_along(width, side);
}

}  // namespace mfu
