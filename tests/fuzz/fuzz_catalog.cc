#include <cstdint>

#include "mfu/hardware.h"

// The first line is a name to look up, the rest is a user's catalogue.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::size_t cut = std::min(text.find('\n'), text.size());
  auto catalog = mfu::Catalog::parse(text.substr(std::min(cut + 1, text.size())), "fuzz.csv");
  if (!catalog.has_value()) return 0;
  for (const mfu::Device& device : mfu::match_devices(*catalog, text.substr(0, cut))) {
    for (mfu::Precision precision : mfu::all_precisions()) {
      const mfu::Peak* peak = device.peak(precision);
      if (peak != nullptr && !(peak->rate.per_s > 0)) __builtin_trap();
    }
  }
  return 0;
}
