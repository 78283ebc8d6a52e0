#include "record/job.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace mfu {

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::optional<std::uint32_t> number(const char* name) {
  std::string_view text = variable(name);
  std::uint32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// For a folder's name.
std::string plain(std::string_view text) {
  std::string safe;
  for (char letter : text.substr(0, 60)) {
    bool kept = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                (letter >= '0' && letter <= '9') || letter == '.' || letter == '_';
    safe += kept ? letter : '-';
  }
  return safe;
}

// Batch scripts and interactive steps have step numbers near 2^32. They are no tasks of `srun`.
constexpr std::uint32_t kMostStep = 0xfffffff0;

Job slurm_job() {
  std::optional<std::uint32_t> step = number("SLURM_STEP_ID");
  if (variable("SLURM_JOB_ID").empty() || !step || *step >= kMostStep) return {};
  Job job{.id = "slurm-" + plain(variable("SLURM_JOB_ID")) + "." + std::to_string(*step),
          .task = number("SLURM_PROCID"),
          .tasks = number("SLURM_STEP_NUM_TASKS")};
  job.restarts = number("SLURM_RESTART_COUNT").value_or(0);
  return job;
}

struct MpiNames {
  const char *job, *rank, *size;
};

// Open MPI 5 and 4, MPICH and Intel MPI, Cray's PALS, Flux, LSF's jsrun.
constexpr MpiNames kMpi[] = {
    {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PALS_APID", "PALS_RANKID", "PMI_SIZE"},
    {"FLUX_JOB_ID", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    {"JSM_NAMESPACE_ID", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    {"PMI_JOBID", "PMI_RANK", "PMI_SIZE"}};

}  // namespace

Job job_of_environment() {
  // Set by hand or in a job's manifest: one name per job, the same on every node.
  if (std::string_view given = variable("MFU_RUN_ID"); !given.empty()) {
    Job job{.id = plain(given), .task = number("MFU_NODE_RANK"), .tasks = number("MFU_NODES")};
    job.restarts = number("MFU_ATTEMPT").value_or(0);
    return job;
  }
  // Under Slurm, mpirun starts its daemons as a step with one task per node. So mpirun's own
  // variables come first.
  for (const MpiNames& names : kMpi) {
    if (variable(names.job).empty()) continue;
    std::optional<std::uint32_t> rank = number(names.rank), size = number(names.size);
    if (rank && size) return {"mpi-" + plain(variable(names.job)), rank, size, 0};
  }
  Job job = slurm_job();
  if (!job.id.empty()) return job;
  // torchrun --no-python mfu run … starts one launcher per worker.
  std::string_view elastic = variable("TORCHELASTIC_RUN_ID");
  if (!elastic.empty() && elastic != "none" && number("RANK")) {
    job = {"torchrun-" + plain(elastic), number("RANK"), number("WORLD_SIZE"),
           number("TORCHELASTIC_RESTART_COUNT").value_or(0)};
  }
  return job;
}

}  // namespace mfu
