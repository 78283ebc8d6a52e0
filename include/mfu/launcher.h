// Who started the processes of a run: one launcher, or one a node or task of a job, which write to
// one directory (docs/cluster.md).
//
//   for (const mfu::Launcher& each : mfu::launchers_of("mfu-runs/train-slurm-77.0")) {
//     std::puts(each.host.c_str());
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mfu/result.h"

namespace mfu {

// One launcher of a run: `mfu run` on a node, or as one task of srun or mpirun.
struct Launcher {
  std::string host;
  std::uint64_t pid = 0;
  std::uint32_t attempt = 0;                 // of the run, from 0
  std::optional<std::uint32_t> task, tasks;  // its number and how many there are, as its job says
  std::optional<std::chrono::nanoseconds> started, ended;
  std::optional<int> exit_status, signal;
  std::string file, region_folder, spare_folder;  // its file's name; where its processes write
  bool over = false;                              // it ended, or was killed on this machine
  bool superseded = false;                        // a later attempt took its place
};

// The launchers of a run, as their files say now.
std::vector<Launcher> launchers_of(const std::string& directory);

}  // namespace mfu
