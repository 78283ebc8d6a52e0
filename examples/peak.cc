// In a program of your own: the peak of a device, an MFU computed with it, and the devices of this
// machine.
#include <mfu/mfu.h>

#include <cstdio>

int main() {
  mfu::Result<mfu::Device> device =
      mfu::find_device(mfu::Catalog::builtin(), "NVIDIA H100 80GB HBM3");
  if (!device.has_value()) {
    std::fprintf(stderr, "%s\n", device.error().message.c_str());
    return 1;
  }
  const mfu::Peak* peak = device->peak(mfu::Precision::bf16);
  std::printf("%s, bf16 dense: %s (%s)\n", device->name.c_str(),
              mfu::rate_text(peak->rate, peak->precision).c_str(), peak->source.c_str());

  // Eight devices took 5.2 seconds for 8 × 8192 tokens of a model that needs 51.47 GFLOP per token.
  mfu::FlopCount step = mfu::FlopCount(51'470'000'000u) * 8u * 8192u;
  mfu::FlopRate reached = step / std::chrono::milliseconds(5200);
  std::printf("MFU %.1f%%\n", reached.per_s / (8 * peak->rate.per_s) * 100);

  mfu::Diagnostics diagnostics;
  for (const auto& found : mfu::detect_machine(mfu::Catalog::builtin(), diagnostics).devices) {
    std::printf("here: %s\n", found.driver_name.c_str());
  }
}
