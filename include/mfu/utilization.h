// Where peak, need and time meet: MFU, HFU and MBU with every assumption behind them.
//
//   auto used = mfu::utilization_of({.model_flop = need.model_flop, .duration =
//   std::chrono::seconds(5),
//                                    .devices = 8, .peak = {989.4e12}, .peak_source = "H100
//                                    datasheet"});
//   used->mfu.value;  // 0.43
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/result.h"
#include "mfu/units.h"
#include "mfu/workload.h"

namespace mfu {

// Above 50% good, 20–50% fair, 10–20% low, below very low.
enum class Rating { good, fair, low, very_low };
Rating rating_of(Fraction mfu);
std::string_view name_of(Rating rating);

struct UtilizationInput {
  FlopCount model_flop;                      // of one step of the whole job
  std::optional<FlopCount> hardware_flop{};  // recomputation in
  std::optional<Bytes> moved{};              // that had to move
  std::chrono::nanoseconds duration{};       // of the step
  std::uint64_t devices = 1;
  FlopRate peak;  // dense, of one device
  std::string peak_source;
  std::optional<ByteRate> bandwidth{};  // of one device
};

struct Utilization {
  Fraction mfu;
  std::optional<Fraction> hfu, mbu;
  FlopRate reached;  // of all devices together
  FlopRate peak;     // of one device
  std::string peak_source;
  std::uint64_t devices = 1;
  Rating rating = Rating::fair;
  // Above 100% nothing is clamped: what contradicts what, and the suspect.
  std::vector<std::string> contradictions;
};

// `invalid_argument` for a time or count of devices that is not above 0, or a peak that is not.
Result<Utilization> utilization_of(const UtilizationInput& input);

// Which of compute and memory binds a step on one device, and from which batch on compute does.
struct Roofline {
  double flop_per_byte = 0;        // of the step
  double ridge_flop_per_byte = 0;  // of the device
  bool compute_bound = false;
  std::optional<std::uint64_t> compute_from_batch;  // none: not up to 2^20
};
// None in training, where what moves is not counted.
Result<std::optional<Roofline>> roofline_of(const ModelSpec& model, const Workload& work,
                                            FlopRate peak, ByteRate bandwidth);

// MFU of runs that were published, to stand beside one of like size.
struct PublishedRun {
  std::string model, device, convention, source;
  std::uint64_t parameters = 0;
  std::uint64_t devices = 0;
  Fraction mfu;
};
const std::vector<PublishedRun>& published_runs();
// At most `most`, nearest in parameters first, within a factor of four.
std::vector<PublishedRun> runs_of_like_size(std::uint64_t parameters, std::size_t most);

}  // namespace mfu
