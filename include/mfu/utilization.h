// Where peak, need and time meet, and nowhere else: which peak stands against a data type, and MFU,
// HFU and MBU of work done in a time. Every command and interface asks here. Beside it: the
// roofline, published runs, and plans (devices, days, cost).
//
//   const mfu::Catalog& catalog = mfu::Catalog::builtin();
//   mfu::Device device = MFU_TRY(mfu::find_device(catalog, "NVIDIA H100 80GB HBM3"));
//   mfu::ChosenPeak peak = mfu::choose_peak({.device = &device}, "bf16");
//   mfu::FlopCount need = 17'000'000'000'000'000u;
//   auto used = mfu::utilization_of({.work = {{.model_flop = need, .peak = peak.rate}},
//                                    .duration = std::chrono::seconds(5),
//                                    .devices = 8});
//   std::printf("%g\n", used->mfu.value);  // 0.43
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

// Why that peak stands against that type, or why there is none.
enum class PeakReason : std::uint8_t {
  own_unit,      // the device has a unit for the type
  wider_unit,    // it has none: the next wider type that it has a unit for
  tf32_allowed,  // fp32 work that may run on the TF32 units
  given,         // the caller gave the rate
  no_device,     // no rate: the device is not known
  no_type,       // no rate: matrix multiplies of such a type have no unit anywhere ("int64")
  no_unit        // no rate: the device has a unit neither for the type nor for a wider one
};
std::string_view name_of(PeakReason reason);

// What a framework lets fp32 work do: its settings for matmuls and convolutions may differ.
struct Tf32 {
  bool matmul = false, convolution = false;  // may run on the TF32 units
  double convolution_fraction = 0;           // of the fp32 FLOPs
};

struct PeakQuestion {
  const Device* device = nullptr;        // as it was found: a slice where that is what runs
  std::optional<FlopRate> given{};       // of one device; wins over the device's
  std::optional<Precision> precision{};  // hold every type against this one's peak
  std::uint64_t sharers = 1;             // ranks that share the device: each has its part
};

struct ChosenPeak {
  std::optional<FlopRate> rate{};  // dense, of one device
  PeakReason reason = PeakReason::no_device;
  std::optional<Precision> precision{};  // the type that was asked about
  std::optional<Precision> against{};    // the type whose peak it is
  std::string source{};                  // device, type and what is cited; "given"
  Confidence confidence = Confidence::read;
};

// The peak that matrix multiplies of a data type are held against, with the accumulation that
// frameworks use. `type` is what an operator is known to compute in, by the name it has in a record
// or a trace ("bf16", "complex64"). Where the device has no unit for the type:
// fp4 or fp6 -> fp8 -> bf16 -> fp32; int4 -> int8 -> fp16 -> fp32; fp16 and tf32 -> fp32.
// fp32 work of which only a part may run in TF32 has the peak that the two parts have together.
ChosenPeak choose_peak(const PeakQuestion& question, std::string_view type, const Tf32& tf32 = {});

// What a training matmul could run in instead: bf16, else fp16, where that is faster by half.
struct FasterPeak {
  ChosenPeak peak;
  double time_fraction = 1;  // of the time the same work takes now
};
std::optional<FasterPeak> faster_peak(const Device& device, Precision precision);

// What ran in one data type, and the peak that stands against it.
struct TypedWork {
  FlopCount model_flop;
  std::optional<FlopCount> hardware_flop{};  // recomputation in
  std::optional<FlopRate> peak{};            // of one device; none: not known
};

struct UtilizationInput {
  std::vector<TypedWork> work{};        // of one step of the whole job
  std::optional<Bytes> moved{};         // that had to move
  std::chrono::nanoseconds duration{};  // of the step
  std::uint64_t devices = 1;
  std::optional<ByteRate> bandwidth{};  // of one device
};

struct Utilization {
  Fraction mfu;  // Σ over types of FLOP / that type's peak, over time and devices
  std::optional<Fraction> hfu, mbu;
  std::vector<Fraction> by_type;  // each one's part of `mfu`, in the order of the work
  // False: some work has no peak. It is left out, and `mfu` and `hfu` are lower bounds.
  bool complete = true;
  FlopRate reached;  // of all devices together
  FlopRate peak;     // of one device; with several types the one that gives the same MFU
  std::uint64_t devices = 1;
  Rating rating = Rating::fair;
  // Above 100% nothing is clamped: what contradicts what, and the suspect.
  std::vector<Note> contradictions;
};

// `invalid_argument` for a time or count of devices that is not above 0, or where no work has a
// peak above 0.
Result<Utilization> utilization_of(const UtilizationInput& input);

// How long the work would take at the peak, and what a rate is of it. Contract: the peak is above
// 0.
double ideal_seconds(FlopCount flop, FlopRate peak);
Fraction of_peak(FlopRate reached, FlopRate peak);

// How long the work takes where compute and memory are all that limits it: the longer of the two.
// Without both only FLOPs count, and the result is no time: good for proportions.
struct Roof {
  std::optional<FlopRate> peak{};
  std::optional<ByteRate> bandwidth{};
};
double roof_seconds(FlopCount flop, Bytes moved, const Roof& roof);

// FLOPs for each byte below which memory binds, and not compute.
double ridge_flop_per_byte(FlopRate peak, ByteRate bandwidth);

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

struct PlanInput {
  FlopCount total_flop;
  FlopRate peak;  // dense, of one device
  Fraction mfu;
  std::uint64_t devices = 1;
  std::optional<double> price_per_device_hour{};  // in whatever currency
  std::optional<double> watts_per_device{};
  // Memory of training: weights, gradients and optimizer states, spread over all devices.
  std::uint64_t parameters = 0;
  double bytes_per_parameter =
      16;  // bf16 weight and gradient, fp32 master copy and two Adam moments
  std::optional<Bytes> memory_per_device{};
};

struct Plan {
  std::uint64_t devices = 0;
  double device_hours = 0;
  double days = 0;
  std::optional<double> cost;
  std::optional<double> energy_kwh;
  std::optional<Bytes> state_per_device;    // activations are not in it; none without a model
  std::optional<Fraction> state_of_memory;  // above 1: it does not fit
};

// `invalid_argument` for an MFU outside 0..1, no devices, no work or no peak.
Result<Plan> plan_run(const PlanInput& input);

// What a step of inference takes at the roof of a device, where compute and memory are all that
// limits it: plain decoding, verification of drafted tokens, a prompt in chunks. No server on that
// device is faster than its `roof_tokens_per_s`.
struct ServingQuestion {
  std::uint64_t drafted = 0;  // tokens that a decode step verifies beside its own
  double accepted = 0;        // of them, kept on average
  std::uint64_t chunk = 0;    // tokens of a prompt that one pass takes; 0: all
  Roof roof{};                // of one device
  std::uint64_t devices = 1;
};

struct ServingNeed {
  std::uint64_t drafted = 0, chunk = 0;
  double accepted = 0;
  std::uint64_t passes = 1;                 // chunks of a prompt
  FlopCount flop;                           // of all passes: chunks need no more than the whole
  std::uint64_t moved_bytes = 0;            // of all passes: each chunk reads the weights again
  double tokens = 0;                        // decode: that come out; prefill: that go in
  bool compute_bound = false;               // most of the time, at the roof
  std::optional<double> roof_tokens_per_s;  // none: peak or bandwidth is not known
};

// None in training. `invalid_argument` for drafted tokens outside decode, more accepted than
// drafted, or chunks outside prefill.
Result<std::optional<ServingNeed>> serving_need(const ModelSpec& model, const Workload& work,
                                                const ServingQuestion& question);

}  // namespace mfu
