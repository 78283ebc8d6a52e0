// What this machine has and really reaches: its devices, as drivers and the processor say; the
// ceiling of a matrix multiply, shown beside the peak; the processor's own counters.
//
//   mfu::Diagnostics diagnostics;
//   mfu::Machine machine = mfu::detect_machine(mfu::Catalog::builtin(), diagnostics);
//   for (const mfu::FoundDevice& found : machine.devices) std::puts(found.driver_name.c_str());
//   mfu::Ceiling ceiling = mfu::measure_cpu_ceiling(mfu::detect_cpu(), {.seconds = 2}, {});
//   for (const mfu::Measured& best : ceiling.measured) std::puts(best.shape.c_str());
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/hardware.h"
#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

struct FoundDevice {
  std::string driver_name;  // as the driver prints it, made safe to print
  std::string source;       // "NVML", "ROCm SMI", "AMD SMI", "CPUID and hwloc"
  std::uint32_t index = 0;  // as that driver counts
  std::string uuid;
  std::string pci;                      // "0000:65:00.0"
  std::optional<Bytes> memory;          // as the driver says
  std::optional<double> clock_hz;       // now
  std::optional<double> clock_most_hz;  // the most it may reach
  std::optional<double> power_limit_w;  // the cap in force
  std::string partition;                // MIG profile or compute partition; empty: the whole device
  std::optional<Device> device;    // what the catalogue knows of it; none: no peak, never a guess
  std::vector<std::string> notes;  // why not, and what to do
};

// What one part of detection found out, for `mfu doctor`.
struct Probe {
  std::string name;     // "NVIDIA driver (NVML)"
  bool works = false;   // it answered
  std::string finding;  // "2 devices, driver 550.54", "libnvidia-ml.so.1 is not there"
  std::string remedy;   // what mends it; empty where nothing needs to
};

struct Machine {
  std::vector<FoundDevice> devices;  // accelerators first, then the CPU
  std::vector<Probe> probes;
};

// Asks the vendors' libraries (each may take two seconds, side by side) and the processor. A driver
// that crashes, hangs or lies costs one warning. $MFU_NVML, $MFU_ROCM_SMI and $MFU_AMD_SMI name
// another library.
Machine detect_machine(const Catalog& catalog, Diagnostics& diagnostics);

// The parts beside the drivers: matrix libraries, PyTorch of that interpreter, hardware counters, a
// foreign package of our name.
std::vector<Probe> probe_parts(const std::string& python);

// The processor alone: cores × FLOP per cycle × measured clock, for the cores this process may use,
// or for those of the given CPUs (operating-system numbers) where any are.
FoundDevice detect_cpu(const std::vector<std::uint32_t>& cpus = {});

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
  double seconds = 8;                   // for everything together, about
  std::vector<Precision> precisions{};  // empty: all that are supported
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

struct CounterOptions {
  // Whose work: 0 is the calling thread; else a thread's or process's main thread's number.
  // Threads and processes it starts later are counted with it, those it has already are not.
  std::int64_t process = 0;
  bool start_at_exec = false;  // count only from its next exec on
};

struct RetiredFlop {
  FlopCount flop;                 // of all widths and types; scaled up where counters took turns
  std::optional<FlopCount> fp64;  // of these in double precision; AMD's counter does not tell
  // The least share of its time that any event had a counter: below 1 the figures are estimates.
  Fraction counted;
};

// Move-only; closing it stops the counting.
class FlopCounters {
 public:
  // Fails with `unsupported`, saying why and what mends it: no libpfm4, a processor it knows no
  // such event for, a kernel that refuses (perf_event_paranoid), a machine without counters.
  static Result<FlopCounters> open(const CounterOptions& options);

  // Since open. Cheap: one system call an event.
  Result<RetiredFlop> read() const;

  // As libpfm4 calls them: "FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE", …
  const std::vector<std::string>& events() const;

  FlopCounters(FlopCounters&&) noexcept;
  FlopCounters& operator=(FlopCounters&&) noexcept;
  ~FlopCounters();

 private:
  friend class CounterOpener;
  struct State;
  explicit FlopCounters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mfu
