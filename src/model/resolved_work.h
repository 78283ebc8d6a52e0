// A Workload applied to a model: how many rows each kind of matrix multiply sees, and the lengths
// that masks cover.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "mfu/workload.h"
#include "model/mask.h"

namespace mfu {

// What is counted. `needed`: the work that a step needs. `executed`: what the Hugging Face class
// runs with eager attention, as torch's FlopCounterMode sees it. `executed_fused`: the same with
// fused attention.
enum class Counting : std::uint8_t { needed, executed, executed_fused };

using RowCounts = std::array<std::uint64_t, kRowsCount>;

struct ResolvedWork {
  Phase phase = Phase::train;
  bool absorbed = false;  // MLA
  bool only_sums = false;
  LengthSums sums;          // always filled
  std::vector<Span> spans;  // equal sequences together; of mean length if only sums are known
  std::uint64_t encoder_length = 0;
  std::uint64_t images = 0;
  ImageGrid grid;
  std::uint64_t class_tokens = 0;
  bool per_frame = true;
  RowCounts needed{};
  RowCounts executed{};
  std::vector<Note> notes;

  const RowCounts& rows(Counting counting) const {
    return counting == Counting::needed ? needed : executed;
  }
};

// Whether a stage takes part in the step. `mtp`: the multi-token-prediction layers run too.
bool runs_in(const Stage& stage, const ResolvedWork& load, bool mtp);

Result<ResolvedWork> resolve_work(const ModelSpec& model, const Workload& work);

}  // namespace mfu
