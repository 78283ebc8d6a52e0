// Finds which lookups of a pass are its tokens, and how many sequences they belong to.
#include "torch/pass_tokens.h"

#include <algorithm>

namespace mfu::observer {
namespace {

// One index for each picture: its form, or how it is tiled (Mllama). Such tables are small, and no
// logits are made for them.
bool tells_form(const Lookup& each, std::uint64_t last_columns) {
  constexpr std::uint64_t kForms = 32;
  return each.sizes[1] == 1 && each.rows <= kForms && each.rows != last_columns;
}

// The indices that fill the rows of the first product with a weight: one position per row. Class
// labels and time steps have one dimension; positions alone are fewer than the rows.
const Lookup* by_rows(const OpenPass& pass, std::uint64_t last_columns) {
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    const Lookup& each = pass.lookups[i];
    if (tells_form(each, last_columns)) continue;
    if (each.sizes[1] != 0 && each.tokens == pass.rows) return &each;
  }
  return nullptr;
}

// The indices of a table with as many rows as the model's head has columns: a language model. This
// also finds packed sequences, whose indices have one dimension.
const Lookup* by_head(const OpenPass& pass, std::uint64_t last_columns) {
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    if (pass.lookups[i].rows == last_columns) return &pass.lookups[i];
  }
  return nullptr;
}

// Attention over pages of a cache tells how many tokens there are. The lookup may have more,
// because a graph of a fixed size is padded.
const Lookup* by_pages(const OpenPass& pass) {
  if (pass.packed.sequences == 0) return nullptr;
  const Lookup* found = nullptr;
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    const Lookup& each = pass.lookups[i];
    bool fits = each.tokens >= pass.packed.rows && (found == nullptr || each.rows > found->rows);
    if (fits) found = &each;
  }
  return found;
}

// A recurrent layer or a convolution comes first. Then it is the only lookup with two dimensions,
// or several that agree.
const Lookup* by_shape(const OpenPass& pass, std::uint64_t last_columns) {
  // these are positions in what a product or kernel made
  if (pass.first_weight != nullptr) return nullptr;
  const Lookup* found = nullptr;
  for (std::uint32_t i = 0; i < pass.lookup_count; ++i) {
    const Lookup& each = pass.lookups[i];
    if (each.sizes[1] == 0 || tells_form(each, last_columns)) continue;
    if (found != nullptr && found->tokens != each.tokens) return nullptr;
    if (found == nullptr || each.rows > found->rows) found = &each;
  }
  return found;
}

std::uint64_t count_sequences(const OpenPass& pass, const Lookup& tokens) {
  std::uint64_t first = tokens.sizes[0], second = tokens.sizes[1];
  if (second == 0) return pass.batch;  // packed: only attention may know
  std::uint64_t batch = pass.batch;
  // A recurrent layer made of products: first all its input at once, then its state step by step.
  bool by_step = pass.rows == tokens.tokens && pass.next_rows < pass.rows;
  if (batch == 0 && by_step) batch = pass.next_rows;
  return batch == second ? second : first;
}

// A whole sequence was looked up, but only its last positions go on to the layers. The others are
// cached.
bool brings_last_only(const OpenPass& pass, const Lookup& tokens) {
  return pass.queries != 0 && tokens.sizes[1] > pass.queries && pass.keys >= tokens.sizes[1] &&
         pass.rows == tokens.sizes[0] * pass.queries && pass.next_rows == pass.rows;
}

// There are as many labels as tokens, or one fewer per sequence, because the first token predicts
// nothing.
bool fits(std::uint64_t labels, const Tokens& tokens) {
  return labels != 0 && (labels == tokens.tokens || labels == tokens.tokens - tokens.samples);
}

// As a rule, labels leave out everything that a mask leaves out.
void add_padding(const Padding& padding, Tokens& tokens) {
  tokens.padding_unread = padding.unread;
  if (padding.looked && padding.keys == tokens.tokens) {
    tokens.padding_seen = true;
    tokens.padded = padding.masked;
  }
  bool given = fits(padding.given, tokens);
  if (!given && !fits(padding.labels, tokens)) return;
  tokens.padding_seen = true;
  std::uint64_t left_out = given ? padding.left_out : padding.ignored;
  tokens.padded = std::min(std::max(tokens.padded, left_out), tokens.tokens);
}

}  // namespace

Tokens tokens_of(const OpenPass& pass, std::uint64_t last_columns) {
  const Lookup* lookup = by_rows(pass, last_columns);
  if (lookup == nullptr) lookup = by_head(pass, last_columns);
  if (lookup == nullptr) lookup = by_pages(pass);
  if (lookup == nullptr) lookup = by_shape(pass, last_columns);
  if (lookup == nullptr) return {.samples = pass.batch != 0 ? pass.batch : pass.leading};
  Tokens tokens{.rows = lookup->rows, .tokens = lookup->tokens};
  if (brings_last_only(pass, *lookup)) tokens.tokens = pass.rows;
  tokens.samples = count_sequences(pass, *lookup);
  if (tokens.samples == 0) tokens.samples = 1;
  tokens.each = tokens.tokens / tokens.samples;
  add_padding(pass.padding, tokens);
  return tokens;
}

}  // namespace mfu::observer
