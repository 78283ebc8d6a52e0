#include "model/resolved_work.h"

#include <fmt/format.h>

#include <algorithm>

namespace mfu {
namespace {

// More tokens than any context or batch has, but few enough that squares of sums stay within 128
// bits.
constexpr std::uint64_t kMostTokens = 1ull << 40;
constexpr std::uint64_t kUnknownImageTokens = 576;  // CLIP ViT-L/14 at 336 pixels: 24 x 24

Result<void> check_count(std::string_view name, std::uint64_t count, std::uint64_t least) {
  if (count >= least && count <= kMostTokens) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} is {}: give {} to 2^40", name, count, least));
}

Result<void> check_work(const Workload& work) {
  MFU_TRY(check_count("batch", work.batch, 1));
  MFU_TRY(check_count("sequence", work.sequence, 1));
  MFU_TRY(check_count("context", work.context, 0));
  MFU_TRY(check_count("encoder sequence", work.encoder_sequence, 0));
  MFU_TRY(check_count("images", work.images, 0));
  for (std::uint64_t length : work.lengths) MFU_TRY(check_count("a length", length, 1));
  if (work.sums) {
    MFU_TRY(check_count("sequences", work.sums->sequences, 1));
    MFU_TRY(check_count("the sum of lengths", work.sums->tokens, work.sums->sequences));
    // For any lengths, Σs <= Σs² <= (Σs)².
    Uint128 tokens = work.sums->tokens;
    if (work.sums->squares < tokens || work.sums->squares > tokens * tokens) {
      return fail(ErrorCode::invalid_argument,
                  "the sum of squared lengths cannot be: give it between the sum of lengths and "
                  "that sum squared");
    }
  }
  const ImageGrid& grid = work.grid;
  bool given = grid.frames != 0 || grid.height != 0 || grid.width != 0;
  for (std::uint64_t side : {grid.frames, grid.height, grid.width}) {
    if (side > 1u << 20) {
      return fail(ErrorCode::invalid_argument, "the image grid is too large: give T,H,W patches");
    }
    if (given && side == 0) {
      return fail(ErrorCode::invalid_argument,
                  "a side of the image grid is 0: give T,H,W patches, 1 or more each");
    }
  }
  return {};
}

std::vector<Span> group_lengths(std::vector<std::uint64_t> lengths, std::uint64_t context) {
  std::sort(lengths.begin(), lengths.end());
  std::vector<Span> spans;
  for (std::uint64_t length : lengths) {
    if (spans.empty() || spans.back().length != length) spans.push_back({length, context, 0});
    ++spans.back().count;
  }
  return spans;
}

Result<void> set_lengths(ResolvedWork& load, const Workload& work) {
  if (work.sums) {
    load.only_sums = true;
    load.sums = *work.sums;
    std::uint64_t mean = load.sums.tokens / load.sums.sequences;
    std::uint64_t longer = load.sums.tokens % load.sums.sequences;
    if (longer != 0) load.spans.push_back({mean + 1, work.context, longer});
    load.spans.push_back({mean, work.context, load.sums.sequences - longer});
    return {};
  }
  if (work.lengths.empty()) {
    load.spans.push_back({work.sequence, work.context, work.batch});
  } else {
    load.spans = group_lengths(work.lengths, work.context);
  }
  Uint128 tokens = 0;
  for (const Span& span : load.spans) {
    load.sums.sequences += span.count;
    tokens += static_cast<Uint128>(span.count) * span.length;
    load.sums.squares += static_cast<Uint128>(span.count) * span.length * span.length;
  }
  if (tokens > kMostTokens * 1024) {
    return fail(ErrorCode::invalid_argument, "more than 2^50 tokens in one step: give fewer");
  }
  load.sums.tokens = static_cast<std::uint64_t>(tokens);
  return {};
}

Result<void> set_images(ResolvedWork& load, const ModelSpec& model, const Workload& work) {
  load.images = work.images;
  if (model.vision_only && load.images == 0) load.images = work.batch;
  if (load.images == 0 || (model.vision_only && work.phase == Phase::decode)) {
    load.images = 0;
    return {};
  }
  if (!model.image) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} has no vision tower: leave the images out", model.type));
  }
  const ImageShape& shape = *model.image;
  load.grid = work.grid.height != 0 ? work.grid : shape.usual;
  if (load.grid.height == 0) {
    load.grid = {1, 24 * shape.merge, 24 * shape.merge};
    load.notes.push_back(
        {"picture_size_assumed", {{"tokens", static_cast<std::int64_t>(kUnknownImageTokens)}}});
  }
  if (!shape.tokens &&
      (load.grid.height % shape.merge != 0 || load.grid.width % shape.merge != 0)) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("an image grid of {} x {} patches: {} merges {} x {} of them into a "
                            "token, so give multiples of {}",
                            load.grid.height, load.grid.width, model.type, shape.merge, shape.merge,
                            shape.merge));
  }
  load.class_tokens = shape.class_tokens;
  load.per_frame = shape.per_frame;
  std::uint64_t patches = load.grid.frames * load.grid.height * load.grid.width;
  std::uint64_t merged = shape.tokens ? *shape.tokens : patches / (shape.merge * shape.merge);
  auto set = [&](Rows rows, std::uint64_t each) {
    load.needed[static_cast<std::size_t>(rows)] = each * load.images;
  };
  set(Rows::patches, patches);
  set(Rows::tower, patches + shape.class_tokens);
  set(Rows::merged, merged);
  set(Rows::images, 1);
  return {};
}

void set_encoder(ResolvedWork& load, const ModelSpec& model, const Workload& work) {
  std::uint64_t longest = 0;
  for (const Span& span : load.spans) longest = std::max(longest, span.length);
  load.encoder_length = work.encoder_sequence != 0    ? work.encoder_sequence
                        : model.encoder_sequence != 0 ? model.encoder_sequence
                                                      : longest;
  // In a decode step the keys and values of the encoder are in the cache.
  std::uint64_t tokens =
      work.phase == Phase::decode ? 0 : load.encoder_length * load.sums.sequences;
  load.needed[static_cast<std::size_t>(Rows::encoder)] = tokens;
  load.needed[static_cast<std::size_t>(Rows::cross)] = tokens;
  load.needed[static_cast<std::size_t>(Rows::frames)] = tokens * model.frames_per_encoder_token;
}

}  // namespace

bool runs_in(const Stage& stage, const ResolvedWork& load, bool mtp) {
  if (stage.mtp && !mtp) return false;
  if (stage.stream == Stream::vision) return load.images != 0;
  if (stage.stream == Stream::encoder) return load.phase != Phase::decode;
  return true;
}

Result<ResolvedWork> resolve_work(const ModelSpec& model, const Workload& work) {
  MFU_TRY(check_work(work));
  ResolvedWork load;
  load.phase = work.phase;
  load.absorbed = work.mla == MlaForm::absorbed ||
                  (work.mla == MlaForm::automatic && work.phase == Phase::decode);
  MFU_TRY(set_lengths(load, work));
  MFU_TRY(set_images(load, model, work));
  set_encoder(load, model, work);
  auto set = [&](Rows rows, std::uint64_t count) {
    load.needed[static_cast<std::size_t>(rows)] = count;
  };
  std::uint64_t tokens = load.sums.tokens, sequences = load.sums.sequences;
  std::uint64_t cached = work.context * sequences;
  set(Rows::tokens, tokens);
  set(Rows::sequences, sequences);
  set(Rows::joint, tokens + load.needed[static_cast<std::size_t>(Rows::encoder)]);
  set(Rows::logits, work.phase == Phase::prefill ? sequences : tokens);
  set(Rows::latents, load.absorbed ? tokens : tokens + cached);
  load.executed = load.needed;
  load.executed[static_cast<std::size_t>(Rows::logits)] = tokens;
  load.executed[static_cast<std::size_t>(Rows::latents)] = tokens + cached;
  return load;
}

}  // namespace mfu
