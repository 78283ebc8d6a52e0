// What a matrix multiply really reaches on a device of this machine: the ceiling shown beside the
// peak.
//
//   mfu::Ceiling ceiling = mfu::measure_cpu_ceiling(mfu::detect_cpu(), {}, {});
//   for (const mfu::Measured& best : ceiling.measured) …  // best.rate, best.shape, best.method
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/machine.h"

namespace mfu {

// One data type by one method. `rate` is the best of `runs`; `median` and `spread` (of the runs of
// the winning shape: 90th less 10th percentile over the median) say how noisy the machine was.
struct Measured {
  Precision precision = Precision::fp32;
  std::string method;  // "FMA bursts", "OpenBLAS sgemm", "oneDNN sgemm", "PyTorch matmul on cuda:0"
  std::optional<FlopRate> rate;  // none: why_not says why
  std::optional<FlopRate> median;
  std::optional<Fraction> spread;
  std::string shape;  // "m=n=k=1536"
  std::optional<double> clock_hz;
  std::size_t runs = 0;
  std::string why_not;
};

struct Ceiling {
  std::string device;                 // FoundDevice::driver_name
  std::string conditions;             // clock and power cap it was measured under
  std::string measured_at;            // UTC, ISO 8601
  std::vector<Measured> bursts;       // the processor's own peak, no library involved (CPU only)
  std::vector<Measured> measured;     // matrix multiplies
  std::optional<ByteRate> bandwidth;  // best triad
  std::string bandwidth_method;
  std::vector<std::string> notes;
};

struct MeasureOptions {
  double seconds = 8;                 // for everything together, about
  std::vector<Precision> precisions;  // empty: all that are supported
};

// Called with 0..1 and what is being measured; may be empty.
using Progress = std::function<void(Fraction done, std::string_view what)>;

// FMA bursts on every core at once, matrix multiplies by OpenBLAS and oneDNN (opened at run time),
// triad.
Ceiling measure_cpu_ceiling(const FoundDevice& cpu, const MeasureOptions& options,
                            const Progress& progress);

// The same search by the PyTorch of that interpreter, on the devices PyTorch has: how a GPU's
// ceiling is measured. `unsupported` where there is no PyTorch.
Result<std::vector<Ceiling>> measure_torch_ceilings(const std::string& python,
                                                    const MeasureOptions& options,
                                                    const Progress& progress);

// The processor's peak with the clock that its own FMA bursts showed, which a matmul cannot beat.
Device with_measured_peak(const Device& cpu, const Ceiling& ceiling);

// The clock and power cap a device is set to: what a stored ceiling holds for.
std::string conditions_of(const FoundDevice& found);

// Kept in cache_directory() by device, clock and power cap, newest last.
Result<void> store_ceiling(const Ceiling& ceiling);
std::optional<Ceiling> stored_ceiling(const FoundDevice& found);

}  // namespace mfu
