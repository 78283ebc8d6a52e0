#include <cstdint>

#include "mfu/monitor.h"
#include "monitor/journal.h"

// Settings of the monitor and the facts of a run directory are read, or refused with a message.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto reading = mfu::read_monitor_config(text, "fuzz.yaml");
  if (reading.has_value()) {
    if (mfu::parse_monitor_config(text, "fuzz.yaml").has_value() != reading->problems.empty()) {
      __builtin_trap();
    }
    mfu::to_json(*reading);
  }
  auto facts = mfu::parse_facts(text, "fuzz.json");
  if (facts.has_value() && !mfu::parse_facts(mfu::to_json(*facts), "again").has_value()) {
    __builtin_trap();
  }
  return 0;
}
