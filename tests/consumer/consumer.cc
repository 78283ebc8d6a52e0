#include <mfu/mfu.h>

#include <cstdio>

int main() {
  auto device = mfu::find_device(mfu::Catalog::builtin(), "AMD Instinct MI300X");
  if (!device.has_value() || device->peak(mfu::Precision::bf16) == nullptr) return 1;
  std::puts(mfu::to_json(mfu::report_devices({*device})).c_str());
  return 0;
}
