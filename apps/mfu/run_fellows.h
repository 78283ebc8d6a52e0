// Launchers that are one run: `srun mfu run …` starts one a task, a job on several nodes one a
// node. One of them prints, for all.
#pragma once

#include <mfu/record.h>

#include <functional>
#include <string>

namespace mfu::app {

// Call when the command has ended and the launcher's file is closed. Alone: true at once. Else this
// launcher's own summary is written (summary-HOST-PID.json, by `json`), and the launcher of the
// lowest rank waits until the others have ended, 30 s at most; for it `record` is then of all.
// False: another one prints.
bool speaks_for_all(const RunPlaces& places, RunRecord& record,
                    const std::function<std::string(const RunRecord& mine)>& json);

// Where a launcher lives that began elsewhere (mfu.observe()), by its region folder.
RunPlaces places_of_launch(const std::string& directory, const std::string& region_folder);

}  // namespace mfu::app
