#include "mfu/utilization.h"

#include <algorithm>

namespace mfu {

namespace {

struct Pass {
  FlopCount flop;
  std::uint64_t moved_bytes = 0;
};

Result<Pass> pass_of(const ModelSpec& model, const Workload& work) {
  FlopNeed need = MFU_TRY(flop_per_step(model, work));
  ByteNeed traffic = MFU_TRY(bytes_per_step(model, work));
  return Pass{need.model_flop, traffic.step_read.value_or(0) + traffic.step_written.value_or(0)};
}

Result<void> check(const Workload& work, const ServingQuestion& question) {
  if (question.drafted > 0 && work.phase != Phase::decode) {
    return fail(ErrorCode::invalid_argument,
                "drafted tokens are verified in decoding: --speculate goes with --phase decode");
  }
  if (question.accepted < 0 || question.accepted > static_cast<double>(question.drafted)) {
    return fail(ErrorCode::invalid_argument, "no more tokens can be kept than were drafted");
  }
  if (question.chunk > 0 && work.phase != Phase::prefill) {
    return fail(ErrorCode::invalid_argument,
                "a prompt comes in chunks: --chunk goes with --phase prefill");
  }
  if (question.chunk > 0 && (!work.lengths.empty() || work.sums)) {
    return fail(ErrorCode::invalid_argument, "--chunk takes --batch and --seq, not --lengths");
  }
  return {};
}

}  // namespace

Result<std::optional<ServingNeed>> serving_need(const ModelSpec& model, const Workload& work,
                                                const ServingQuestion& question) {
  MFU_TRY(check(work, question));
  if (work.phase == Phase::train) return std::optional<ServingNeed>();
  ServingNeed need{
      .drafted = question.drafted, .chunk = question.chunk, .accepted = question.accepted};
  Workload each = work;
  // Each sequence has its own token and the drafted ones, and all of them get logits.
  if (question.drafted > 0) each.sequence = question.drafted + 1;
  Pass whole = MFU_TRY(pass_of(model, each));
  need.flop = whole.flop;
  double seconds = 0, compute_seconds = 0;
  auto add = [&](const Pass& pass) {
    need.moved_bytes += pass.moved_bytes;
    if (!question.roof.peak || !question.roof.bandwidth) return;
    double compute = ideal_seconds(pass.flop, *question.roof.peak);
    double all = roof_seconds(pass.flop, Bytes{pass.moved_bytes}, question.roof);
    seconds += all;
    if (compute >= all) compute_seconds += all;
  };
  if (question.chunk > 0 && question.chunk < work.sequence) {
    need.passes = 0;
    for (std::uint64_t done = 0; done < work.sequence; done += each.sequence) {
      each.sequence = std::min(question.chunk, work.sequence - done);
      each.context = work.context + done;
      add(MFU_TRY(pass_of(model, each)));
      if (++need.passes > 1u << 20) return fail(ErrorCode::invalid_argument, "too many chunks");
    }
  } else {
    add(whole);
  }
  auto sequences = static_cast<double>(!work.lengths.empty() ? work.lengths.size()
                                       : work.sums           ? work.sums->sequences
                                                             : work.batch);
  if (work.phase == Phase::decode && question.drafted > 0) {
    need.tokens = sequences * (1 + question.accepted);
  } else {
    need.tokens = static_cast<double>(MFU_TRY(flop_per_step(model, work)).tokens);
  }
  if (seconds <= 0) return std::optional(need);
  need.compute_bound = 2 * compute_seconds >= seconds;
  need.roof_tokens_per_s = need.tokens / seconds * static_cast<double>(question.devices);
  return std::optional(need);
}

}  // namespace mfu
