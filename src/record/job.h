// The job that a launcher belongs to, read from the environment variables of schedulers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mfu {

// `srun mfu run …` and `mpirun mfu run …` start one launcher per task. Together they are one run.
struct Job {
  std::string id;                            // "slurm-1234.0"; empty if there is no job
  std::optional<std::uint32_t> task, tasks;  // its number, and how many there are
  std::uint32_t restarts = 0;                // how often the scheduler has started the job again
};

Job job_of_environment();

}  // namespace mfu
