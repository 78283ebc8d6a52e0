// The job that a launcher is part of, as the variables of schedulers say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mfu {

// `srun mfu run …` and `mpirun mfu run …` start one launcher a task: together they are one run.
struct Job {
  std::string id;                            // "slurm-1234.0"; empty: the launcher stands alone
  std::optional<std::uint32_t> task, tasks;  // its number, and how many there are
  std::uint32_t restarts = 0;                // how often the scheduler has started the job again
};

Job job_of_environment();

}  // namespace mfu
