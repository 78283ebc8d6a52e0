// What this machine has, and what it really reaches. detect_machine() lists its devices. A Ceiling
// is the best rate that a matrix multiply reached here; reports show it beside the peak.
// FlopCounters reads the processor's own counters of floating-point operations.
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
  std::string driver_name;  // as the driver prints it, with control characters removed
  std::string source;       // "NVML", "ROCm SMI", "AMD SMI", "CPUID and hwloc"
  std::uint32_t index = 0;  // its number in that driver
  std::string uuid;
  std::string pci;                      // "0000:65:00.0"
  std::optional<Bytes> memory;          // according to the driver
  std::optional<double> clock_hz;       // at the moment
  std::optional<double> clock_most_hz;  // highest clock it may reach
  std::optional<double> power_limit_w;  // power cap in force
  std::string partition;         // MIG profile or compute partition; empty for a whole device
  std::optional<Device> device;  // its entry in the catalogue; none means that it has no peak
  std::vector<Note> notes;       // why it has none
};

// What one part of detection found out, for `mfu doctor`.
struct Probe {
  std::string name;     // "NVIDIA driver (NVML)"
  bool works = false;   // whether it answered
  std::string finding;  // "2 devices, driver 550.54", "libnvidia-ml.so.1 is not there"
  std::string remedy;   // how to fix it; empty if nothing is broken
};

struct Machine {
  std::vector<FoundDevice> devices;  // accelerators first, then the CPU
  std::vector<Probe> probes;
};

// Asks the vendors' libraries and the processor. The libraries are asked at the same time, each for
// two seconds at most. A driver that crashes, hangs or lies only causes a warning. $MFU_NVML,
// $MFU_ROCM_SMI and $MFU_AMD_SMI name another library to ask.
Machine detect_machine(const Catalog& catalog, Diagnostics& diagnostics);

// Checks everything else: matrix libraries, the PyTorch of the interpreter `python`, hardware
// counters, and whether another project's package has our name.
std::vector<Probe> probe_parts(const std::string& python);

// The processor alone. Its peak is cores × FLOP per cycle × measured clock, for the cores that this
// process may use, or for the given CPUs (by their number in the operating system).
FoundDevice detect_cpu(const std::vector<std::uint32_t>& cpus = {});

// One data type, measured by one method. `rate` is the best of `runs`. `median` and `spread` are of
// the runs of the winning shape and tell how noisy the machine was; `spread` is the 90th minus the
// 10th percentile, divided by the median.
struct Measured {
  Precision precision = Precision::fp32;
  std::string method;  // "FMA bursts", "OpenBLAS sgemm", "oneDNN sgemm", "PyTorch matmul on cuda:0"
  std::optional<FlopRate> rate;  // none if it could not be measured: see why_not
  std::optional<FlopRate> median;
  std::optional<Fraction> spread;
  std::string shape;  // "m=n=k=1536"
  std::optional<double> clock_hz;
  std::size_t runs = 0;
  std::string why_not;
};

struct Ceiling {
  std::string device;                 // FoundDevice::driver_name
  std::string conditions;             // clock and power cap during the measurement
  std::string measured_at;            // UTC, ISO 8601
  std::vector<Measured> bursts;       // plain FMA instructions without a library (CPU only)
  std::vector<Measured> measured;     // matrix multiplies
  std::optional<ByteRate> bandwidth;  // best triad
  std::string bandwidth_method;
  std::vector<Note> notes;
};

struct MeasureOptions {
  double seconds = 8;                   // about, for everything together
  std::vector<Precision> precisions{};  // empty means all that the device supports
};

// Called during a measurement with the share that is done and with what is being measured. May be
// empty.
using Progress = std::function<void(Fraction done, std::string_view what)>;

// Measures the processor: FMA bursts on every core at once, matrix multiplies with OpenBLAS and
// oneDNN (both opened at run time), and memory bandwidth with a triad.
Ceiling measure_cpu_ceiling(const FoundDevice& cpu, const MeasureOptions& options,
                            const Progress& progress);

// Measures matrix multiplies with the PyTorch of the interpreter `python`, on every device that
// PyTorch has. The ceiling of a GPU is measured this way. Fails with `unsupported` if there is no
// PyTorch.
Result<std::vector<Ceiling>> measure_torch_ceilings(const std::string& python,
                                                    const MeasureOptions& options,
                                                    const Progress& progress);

// The processor with its peak taken from the measured FMA bursts, which no matmul can beat.
Device with_measured_peak(const Device& cpu, const Ceiling& ceiling);

// The clock and power cap that a device is set to. A stored ceiling is valid only for these.
std::string conditions_of(const FoundDevice& found);

// Ceilings are kept in cache_directory(), by device, clock and power cap. stored_ceiling() returns
// the newest that fits, or none. store_ceiling() fails with `io`.
Result<void> store_ceiling(const Ceiling& ceiling);
std::optional<Ceiling> stored_ceiling(const FoundDevice& found);

struct CounterOptions {
  // Whose work to count: 0 is the calling thread, any other number that thread (for a process, its
  // main thread). Threads and processes that it starts later are included; those that it started
  // before are not.
  std::int64_t process = 0;
  bool start_at_exec = false;  // begin to count at its next exec
};

struct RetiredFlop {
  FlopCount flop;                 // all widths and types; scaled up if counters had to take turns
  std::optional<FlopCount> fp64;  // of these in double precision; none on AMD, which cannot tell
  // The smallest share of the time for which an event had a counter. Below 1 the counts are
  // estimates.
  Fraction counted;
};

// Counts until it is destroyed. It can be moved but not copied.
class FlopCounters {
 public:
  // Begins to count. Fails with `unsupported` if libpfm4 is missing or knows no such event for this
  // processor, if the kernel refuses (perf_event_paranoid), or if the machine has no counters. The
  // message says how to fix it.
  static Result<FlopCounters> open(const CounterOptions& options);

  // What was counted since open(). It is cheap: one system call per event.
  Result<RetiredFlop> read() const;

  // The events by libpfm4's names, such as "FP_ARITH_INST_RETIRED:256B_PACKED_SINGLE".
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
