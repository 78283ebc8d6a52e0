#include <algorithm>
#include <cmath>

#include "base/csv.h"
#include "base/embed.h"
#include "base/text.h"
#include "mfu/utilization.h"

MFU_EMBED(mfu_published_runs_csv, MFU_UTILIZATION_DIR "/published_runs.csv");

namespace mfu {

const std::vector<PublishedRun>& published_runs() {
  static const std::vector<PublishedRun>* const kRuns = [] {
    auto* runs = new std::vector<PublishedRun>;
    Result<CsvTable> table =
        parse_csv({mfu_published_runs_csv, mfu_published_runs_csv_end}, "published_runs.csv");
    MFU_ASSERT(table.has_value());
    for (const CsvRow& row : table->rows) {
      PublishedRun& run = runs->emplace_back();
      run.model = row.cells[0];
      run.parameters = parse_count(row.cells[1]).value();
      run.device = row.cells[2];
      run.devices = parse_count(row.cells[3]).value();
      run.mfu = {parse_number(row.cells[4]).value() / 100};
      run.convention = row.cells[5];
      run.source = row.cells[6];
    }
    return runs;
  }();
  return *kRuns;
}

std::vector<PublishedRun> runs_of_like_size(std::uint64_t parameters, std::size_t most) {
  std::vector<std::pair<double, const PublishedRun*>> near;
  for (const PublishedRun& run : published_runs()) {
    double apart =
        std::fabs(std::log(static_cast<double>(run.parameters) / static_cast<double>(parameters)));
    if (apart <= std::log(4.0)) near.emplace_back(apart, &run);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PublishedRun> runs;
  for (const auto& [apart, run] : near) {
    if (runs.size() < most) runs.push_back(*run);
  }
  return runs;
}

}  // namespace mfu
