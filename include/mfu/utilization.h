// Puts need, time and peak together. choose_peak() says which peak a data type is compared with;
// utilization_of() computes MFU, HFU and MBU of work done in some time. No other code divides by a
// peak: every command and interface asks here. Also here: the roofline, published runs, plans
// (devices, days, cost) and what serving can reach at best.
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

// good: above 50%; fair: 20–50%; low: 10–20%; very_low: below 10%.
enum class Rating { good, fair, low, very_low };
Rating rating_of(Fraction mfu);
std::string_view name_of(Rating rating);

// Why a type is compared with that peak, or why there is none.
enum class PeakReason : std::uint8_t {
  own_unit,      // the device has a unit for the type
  wider_unit,    // it has none, so the next wider type that it has a unit for is used
  tf32_allowed,  // fp32 work that may run on the TF32 units
  given,         // the caller gave the rate
  no_device,     // no rate: the device is not known
  no_type,       // no rate: no device has a matrix unit for such a type ("int64")
  no_unit        // no rate: the device has a unit neither for the type nor for a wider one
};
std::string_view name_of(PeakReason reason);

// Whether the framework lets fp32 work run on the TF32 units. Matmuls and convolutions have
// separate settings.
struct Tf32 {
  bool matmul = false, convolution = false;
  double convolution_fraction = 0;  // share of convolutions in the fp32 FLOPs
};

struct PeakQuestion {
  const Device* device = nullptr;        // the device or slice that the work ran on
  std::optional<FlopRate> given{};       // peak of one device; wins over `device`
  std::optional<Precision> precision{};  // compare every type with the peak of this one
  std::uint64_t sharers = 1;             // number of ranks that share the device equally
};

struct ChosenPeak {
  std::optional<FlopRate> rate{};  // dense, of one device; none: see `reason`
  PeakReason reason = PeakReason::no_device;
  std::optional<Precision> precision{};  // the type that was asked about
  std::optional<Precision> against{};    // the type whose peak it is
  std::string source{};                  // device, type and citation; or "given"
  Confidence confidence = Confidence::read;
};

// The dense peak that matrix multiplies of a data type are compared with. Its accumulate type is
// the one that frameworks use (fp32 for fp16 and bf16). `type` is the type that an operator
// computes in, as a record or a trace names it ("bf16", "complex64"). If the device has no unit for
// the type, a wider one is used: fp4 or fp6 -> fp8 -> bf16 -> fp32; int4 -> int8 -> fp16 -> fp32;
// fp16, bf16 and tf32 -> fp32. If only a part of fp32 work may run in TF32, the peak is that of
// both parts together.
ChosenPeak choose_peak(const PeakQuestion& question, std::string_view type, const Tf32& tf32 = {});

// The type that training could use instead: bf16, else fp16, if its peak is more than 1.5 times as
// high. None otherwise.
struct FasterPeak {
  ChosenPeak peak;
  double time_fraction = 1;  // new time / old time of the same work
};
std::optional<FasterPeak> faster_peak(const Device& device, Precision precision);

// The work that ran in one data type, and the peak to compare it with.
struct TypedWork {
  FlopCount model_flop;
  std::optional<FlopCount> hardware_flop{};  // with recomputation
  std::optional<FlopRate> peak{};            // of one device; none if not known
};

struct UtilizationInput {
  std::vector<TypedWork> work{};        // of one step of the whole job
  std::optional<Bytes> moved{};         // bytes that the step had to move
  std::chrono::nanoseconds duration{};  // of the step
  std::uint64_t devices = 1;
  std::optional<ByteRate> bandwidth{};  // of one device
};

struct Utilization {
  Fraction mfu;  // Σ over types of (FLOP / peak of the type), divided by time and devices
  std::optional<Fraction> hfu, mbu;
  std::vector<Fraction> by_type;  // what each type adds to `mfu`, in the order of `work`
  // False if some work has no peak. It is left out, so `mfu` and `hfu` are lower bounds.
  bool complete = true;
  FlopRate reached;  // of all devices together
  FlopRate peak;     // of one device; with several types, the peak that gives the same MFU
  std::uint64_t devices = 1;
  Rating rating = Rating::fair;
  // A utilization above 100% is not clamped. These notes name the contradiction and the suspect.
  std::vector<Note> contradictions;
};

// Fails with `invalid_argument` if the time or the number of devices is not above 0, or if no work
// has a peak above 0.
Result<Utilization> utilization_of(const UtilizationInput& input);

// ideal_seconds(): the time that the work takes at the peak. of_peak(): the rate divided by the
// peak. Contract: the peak is above 0.
double ideal_seconds(FlopCount flop, FlopRate peak);
Fraction of_peak(FlopRate reached, FlopRate peak);

// The shortest time for the work if only compute and memory limit it: the longer of the two.
// Without peak and bandwidth the result is only proportional to the FLOPs and is not a time.
struct Roof {
  std::optional<FlopRate> peak{};
  std::optional<ByteRate> bandwidth{};
};
double roof_seconds(FlopCount flop, Bytes moved, const Roof& roof);

// The FLOPs per byte at which compute and memory take equally long. Below it memory is the limit.
double ridge_flop_per_byte(FlopRate peak, ByteRate bandwidth);

// Whether compute or memory limits a step on one device, and from which batch on compute does.
struct Roofline {
  double flop_per_byte = 0;        // of the step
  double ridge_flop_per_byte = 0;  // of the device
  bool compute_bound = false;
  std::optional<std::uint64_t> compute_from_batch;  // none if it is above 2^20
};
// None for training, because the bytes that training moves are not counted.
Result<std::optional<Roofline>> roofline_of(const ModelSpec& model, const Workload& work,
                                            FlopRate peak, ByteRate bandwidth);

// The MFU of a published run, to compare with.
struct PublishedRun {
  std::string model, device, convention, source;
  std::uint64_t parameters = 0;
  std::uint64_t devices = 0;
  Fraction mfu;
};
const std::vector<PublishedRun>& published_runs();
// At most `most` runs whose parameters are within a factor of four, the nearest first.
std::vector<PublishedRun> runs_of_like_size(std::uint64_t parameters, std::size_t most);

struct PlanInput {
  FlopCount total_flop;
  FlopRate peak;  // dense, of one device
  Fraction mfu;
  std::uint64_t devices = 1;
  std::optional<double> price_per_device_hour{};  // in any currency
  std::optional<double> watts_per_device{};
  // For the memory of the training state: weights, gradients and optimizer states, spread over all
  // devices. 16 bytes are a bf16 weight and gradient, an fp32 master copy and two Adam moments.
  std::uint64_t parameters = 0;
  double bytes_per_parameter = 16;
  std::optional<Bytes> memory_per_device{};
};

struct Plan {
  std::uint64_t devices = 0;
  double device_hours = 0;
  double days = 0;
  std::optional<double> cost;
  std::optional<double> energy_kwh;
  std::optional<Bytes> state_per_device;    // without activations; none without parameters
  std::optional<Fraction> state_of_memory;  // above 1 means that it does not fit
};

// Fails with `invalid_argument` if the MFU is outside 0..1, or if devices, work or peak are 0.
Result<Plan> plan_run(const PlanInput& input);

// What a step of inference takes if only compute and memory limit it: plain decoding, verification
// of drafted tokens, or a prompt in chunks. No server can be faster on that device than
// `roof_tokens_per_s`.
struct ServingQuestion {
  std::uint64_t drafted = 0;  // drafted tokens that a decode step verifies, besides its own token
  double accepted = 0;        // how many of them are kept on average
  std::uint64_t chunk = 0;    // tokens of a prompt per pass; 0: the whole prompt at once
  Roof roof{};                // of one device
  std::uint64_t devices = 1;
};

struct ServingNeed {
  std::uint64_t drafted = 0, chunk = 0;
  double accepted = 0;
  std::uint64_t passes = 1;                 // number of chunks of the prompt
  FlopCount flop;                           // all passes; chunks need no more than the whole
  std::uint64_t moved_bytes = 0;            // all passes; each chunk reads the weights again
  double tokens = 0;                        // decode: tokens that come out; prefill: that go in
  bool compute_bound = false;               // whether compute is the limit for most of the time
  std::optional<double> roof_tokens_per_s;  // none if peak or bandwidth is not known
};

// None for training. Fails with `invalid_argument` for drafted tokens outside decode, more accepted
// than drafted tokens, or chunks outside prefill.
Result<std::optional<ServingNeed>> serving_need(const ModelSpec& model, const Workload& work,
                                                const ServingQuestion& question);

}  // namespace mfu
