#include <cstdint>

#include "base/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto table = mfu::parse_csv({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
  if (table.has_value()) {
    for (const mfu::CsvRow& row : table->rows) {
      if (row.cells.size() != table->columns.size()) __builtin_trap();
    }
  }
  return 0;
}
