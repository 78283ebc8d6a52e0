// The built-in tables, compiled in as they stand in catalog.csv and partitions.csv.
#pragma once

#include <string_view>

namespace mfu {

std::string_view catalog_csv();
std::string_view partitions_csv();

}  // namespace mfu
