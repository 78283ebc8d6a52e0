// The explanation of a run's profiled steps: from what its processes left in the run directory to
// explain.json and report.html there.
#pragma once

#include <mfu/mfu.h>

#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

// Compresses the windows' traces, which scrubs them of credentials, and keeps at most 1 GB of them.
// Those that cannot be used are left out; `notes` say why.
std::vector<ProfiledWindow> seal_windows(std::vector<ProfiledWindow> windows,
                                         std::vector<Note>& notes);

// Explains what lies in those windows, with the device of the run.
Result<ExplainReport> explain_windows(const std::vector<ProfiledWindow>& windows,
                                      const RunQuestion& question, const Catalog& catalog);

// The whole way, into `report`. Where nothing can be explained a note says why.
void explain_run(Context& context, const std::string& directory, const RunRecord& record,
                 const RunQuestion& question, RunReport& report);

}  // namespace mfu::app
