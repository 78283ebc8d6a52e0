// Comma-separated values (RFC 4180) with a header line: rows by column name, each knowing its line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/result.h"

namespace mfu {

struct CsvRow {
  std::size_t line = 0;  // of the row's first character, from 1
  std::vector<std::string> cells;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;  // each with columns.size() cells
};

// Fails with `malformed`, naming `name`, line and column, if a quote is not closed or a row has
// more or fewer cells than the header. Blank lines, lines that start with '#' and a byte-order mark
// are skipped.
Result<CsvTable> parse_csv(std::string_view text, std::string_view name);

}  // namespace mfu
