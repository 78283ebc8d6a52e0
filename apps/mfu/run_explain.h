// Explains the profiled steps of a run. It reads what the processes left in the run directory, and
// writes explain.json and report.html there.
#pragma once

#include <mfu/mfu.h>

#include <string>
#include <vector>

#include "cli.h"

namespace mfu::app {

// Compresses the traces of the windows, removes credentials from them, and keeps at most 1 GB.
// Traces that cannot be used are left out, and `notes` say why.
std::vector<ProfiledWindow> seal_windows(std::vector<ProfiledWindow> windows,
                                         std::vector<Note>& notes);

// Explains those windows with the device of the run.
Result<ExplainReport> explain_windows(const std::vector<ProfiledWindow>& windows,
                                      const RunQuestion& question, const Catalog& catalog);

// Does all of it and fills `report`. If nothing can be explained, a note says why.
void explain_run(Context& context, const std::string& directory, const RunRecord& record,
                 const RunQuestion& question, RunReport& report);

}  // namespace mfu::app
