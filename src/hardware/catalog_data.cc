#include "hardware/catalog_data.h"

#include "base/embed.h"

MFU_EMBED(mfu_catalog_csv, MFU_HARDWARE_DIR "/catalog.csv");
MFU_EMBED(mfu_partitions_csv, MFU_HARDWARE_DIR "/partitions.csv");

namespace mfu {

std::string_view catalog_csv() {
  return {mfu_catalog_csv, mfu_catalog_csv_end};
}
std::string_view partitions_csv() {
  return {mfu_partitions_csv, mfu_partitions_csv_end};
}

}  // namespace mfu
