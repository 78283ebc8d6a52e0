// Which of a pass's lookups are its tokens, and how many sequences they are of.
#include "torch/pass_tokens.h"

#include <algorithm>

namespace mfu::observer {
namespace {

// The indices that fill the rows of the first product with a weight: one position, one row. Class
// labels and time steps have one dimension; positions alone are fewer than the rows.
const Lookup* by_rows(const OpenPass& pass) {
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    const Lookup& each = pass.lookups[i];
    if (each.sizes[1] != 0 && each.tokens == pass.rows) return &each;
  }
  return nullptr;
}

// Of a table with as many rows as the model's head has columns: a language model, also of packed
// sequences, whose indices have one dimension.
const Lookup* by_head(const OpenPass& pass, std::uint64_t last_columns) {
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    if (pass.lookups[i].rows == last_columns) return &pass.lookups[i];
  }
  return nullptr;
}

// A recurrent layer or a convolution comes first: the only lookup with two dimensions, or several
// that agree.
const Lookup* by_shape(const OpenPass& pass) {
  const Lookup* found = nullptr;
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    const Lookup& each = pass.lookups[i];
    if (each.sizes[1] == 0) continue;
    if (found != nullptr && found->tokens != each.tokens) return nullptr;
    if (found == nullptr || each.rows > found->rows) found = &each;
  }
  return found;
}

std::uint64_t sequences_of(const OpenPass& pass, const Lookup& tokens) {
  std::uint64_t first = tokens.sizes[0], second = tokens.sizes[1];
  if (second == 0) return pass.batch;  // packed: only attention may know
  if (pass.batch != 0 && pass.batch == second && pass.batch != first) return second;
  return first;
}

}  // namespace

Tokens tokens_of(const OpenPass& pass, std::uint64_t last_columns) {
  const Lookup* lookup = by_rows(pass);
  if (lookup == nullptr) lookup = by_head(pass, last_columns);
  if (lookup == nullptr) lookup = by_shape(pass);
  if (lookup == nullptr) return {.samples = pass.batch != 0 ? pass.batch : pass.leading};
  Tokens tokens{.rows = lookup->rows, .tokens = lookup->tokens};
  tokens.padded = std::min(std::max(pass.padded, lookup->padded), tokens.tokens);
  tokens.samples = sequences_of(pass, *lookup);
  if (tokens.samples == 0) tokens.samples = 1;
  tokens.each = tokens.tokens / tokens.samples;
  return tokens;
}

}  // namespace mfu::observer
