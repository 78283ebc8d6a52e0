// libFuzzer: any bytes as a config.json, and one step of whatever it describes.
#include <string_view>

#include "mfu/convention.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  mfu::Diagnostics diagnostics;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto model = mfu::parse_model(text, "fuzz", {}, diagnostics);
  if (!model) return 0;
  mfu::count_parameters(*model);
  mfu::Workload work{.phase = mfu::Phase::train, .batch = 3, .sequence = 17};
  for (mfu::Convention convention : mfu::all_conventions()) {
    (void)mfu::flop_by_convention(*model, work, convention, {});
  }
  (void)mfu::bytes_per_step(*model, {.phase = mfu::Phase::decode, .context = 5});
  (void)mfu::plan_training(*model, {.lora_rank = 4});
  return 0;
}
