// S. Williams, A. Waterman, D. Patterson: Roofline (CACM 52/4, 2009): compute is the limit of a
// step if its FLOPs per byte exceed the device's peak divided by its bandwidth.
#include "mfu/utilization.h"

namespace mfu {

namespace {

// FLOPs per byte of the step at that batch. None if traffic is not counted.
Result<std::optional<double>> intensity(const ModelSpec& model, Workload work,
                                        std::uint64_t batch) {
  work.batch = batch;
  FlopNeed need = MFU_TRY(flop_per_step(model, work));
  ByteNeed traffic = MFU_TRY(bytes_per_step(model, work));
  if (!traffic.step_read) return std::optional<double>();
  double bytes = static_cast<double>(*traffic.step_read) +
                 static_cast<double>(traffic.step_written.value_or(0));
  return bytes > 0 ? std::optional(need.model_flop.to_double() / bytes) : std::nullopt;
}

}  // namespace

double ridge_flop_per_byte(FlopRate peak, ByteRate bandwidth) {
  return peak.per_s / bandwidth.per_s;
}

Result<std::optional<Roofline>> roofline_of(const ModelSpec& model, const Workload& work,
                                            FlopRate peak, ByteRate bandwidth) {
  Roofline roof;
  roof.ridge_flop_per_byte = ridge_flop_per_byte(peak, bandwidth);
  std::optional<double> now = MFU_TRY(intensity(model, work, work.batch));
  if (!now) return std::optional<Roofline>();
  roof.flop_per_byte = *now;
  roof.compute_bound = *now >= roof.ridge_flop_per_byte;
  if (!work.lengths.empty() || work.sums) return std::optional(roof);
  // FLOPs per byte grow with the batch, so a binary search finds the first batch above the ridge.
  constexpr std::uint64_t kMost = 1u << 20;
  std::uint64_t below = 0;
  std::uint64_t above = kMost;
  std::optional<double> most = MFU_TRY(intensity(model, work, kMost));
  if (!most || *most < roof.ridge_flop_per_byte) return std::optional(roof);
  while (above - below > 1) {
    std::uint64_t middle = below + (above - below) / 2;
    std::optional<double> there = MFU_TRY(intensity(model, work, middle));
    (there.value_or(0) >= roof.ridge_flop_per_byte ? above : below) = middle;
  }
  roof.compute_from_batch = above;
  return std::optional(roof);
}

}  // namespace mfu
