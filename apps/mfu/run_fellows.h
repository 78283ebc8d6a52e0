// Several launchers can belong to one run: `srun mfu run …` starts one per task, and a job on
// several nodes has one per node. One of them prints the summary for all.
#pragma once

#include <mfu/record.h>

#include <functional>
#include <string>

namespace mfu::app {

// Whether this launcher prints the summary. Call it when the command has ended and the launcher's
// file is closed. A launcher that is alone gets true at once. Otherwise its own summary is written
// to summary-HOST-PID.json, with the text that `json` makes. The launcher of the lowest rank then
// waits until the others have ended, 30 s at most; its `record` is replaced by that of the whole
// run, and it gets true.
bool speaks_for_all(const RunPlaces& places, RunRecord& record,
                    const std::function<std::string(const RunRecord& mine)>& json);

// The places of a launch that another process began (mfu.observe()), found by its region folder.
RunPlaces places_of_launch(const std::string& directory, const std::string& region_folder);

}  // namespace mfu::app
