// FLOPs of an NVIDIA GPU from its counters, which tell how busy the tensor pipes are and at which
// clock.
//
//   FLOP/s = tensor-pipe activity × SM clock / clock behind the peak × dense peak × useful share
//
// (arXiv 2605.20799, Overall FLOP Utilization; the useful share is what tile quantisation leaves,
// measure/tile.h.) The activity does not tell which data type ran, so the peak must be that of the
// right type. It counts what the tensor pipes did, including recomputation, and nothing else.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "hardware/samples.h"
#include "mfu/units.h"

namespace mfu {

// What was seen between two looks: the activity from 0 to 1, and the clock at the second look.
struct TensorLook {
  double active_fraction = 0;
  double clock_hz = 0;
};

class TensorProbe {
 public:
  virtual ~TensorProbe() = default;
  virtual std::string name() const = 0;
  // Fails with `not_found` if it is too early for a first one. May block.
  virtual Result<TensorLook> look() = 0;
};

struct GpuRating {
  FlopRate peak;            // dense, for the data type that runs
  double clock_hz = 0;      // the clock for which that peak is stated
  double useful_share = 1;  // the share of what the tensor pipes execute that the model needs
};

// Fails with `unsupported` for an activity outside 0 to 1 and for an impossible clock.
Result<FlopRate> tensor_rate(const TensorLook& look, const GpuRating& rating);

// Makes a counter of FLOPs from a probe. The probe is asked every `period` on its own thread, so
// nobody waits for a driver or an exporter that hangs. Between two looks the last rate counts.
std::shared_ptr<CounterSource> make_tensor_source(std::unique_ptr<TensorProbe> probe,
                                                  const GpuRating& rating,
                                                  std::chrono::milliseconds period,
                                                  const Clock& clock = Clock::system());

// NVML's GPM, for Hopper and newer. The library is opened at run time ($MFU_NVML,
// libnvidia-ml.so.1). Fails with `unsupported` and the reason if there is none.
Result<std::unique_ptr<TensorProbe>> open_gpm_probe(const std::string& gpu);

// Reads DCGM_FI_PROF_PIPE_TENSOR_ACTIVE and DCGM_FI_DEV_SM_CLOCK of one GPU from a page of the DCGM
// exporter.
std::unique_ptr<TensorProbe> make_dcgm_probe(std::string url, std::string gpu,
                                             std::chrono::milliseconds patience);
Result<TensorLook> parse_dcgm(std::string_view page, std::string_view gpu);

// The GPU of this process, by index or UUID: the one at position LOCAL_RANK in
// CUDA_VISIBLE_DEVICES.
std::string gpu_of_this_rank();

}  // namespace mfu
