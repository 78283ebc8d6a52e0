// Checks what else works on this machine, for `mfu doctor`.
#include <fmt/format.h>

#include "base/process.h"
#include "base/text.h"
#include "hardware/gemm.h"
#include "mfu/machine.h"

namespace mfu {

namespace {

Probe gemm_probe(const char* name, const Result<std::unique_ptr<Gemm>>& opened) {
  if (opened.has_value()) return {name, true, "measures the ceiling of this processor", ""};
  return {name, false, opened.error().message,
          opened.error().message.find("apt-get") == std::string::npos ? "" : "install it as said"};
}

Probe torch_probe(const std::string& python) {
  constexpr std::string_view kScript =
      "import torch\nprint(torch.__version__, 'with', torch.cuda.device_count(), 'CUDA/ROCm "
      "device(s)')\n";
  if (python.empty())
    return {"PyTorch", false, "no Python was found", "install python3, or set --python"};
  ProcessEnd end = run_command({python, "-"}, kScript, std::chrono::seconds(60));
  if (end.good()) return {"PyTorch", true, printable(trim(end.output)) + " (" + python + ")", ""};
  return {"PyTorch", false,
          end.kind == ProcessEnd::Kind::exited ? python + " cannot import torch"
                                               : python + " " + end.describe(),
          "pip install torch, or name a Python that has it: --python PATH or MFU_PYTHON"};
}

// On PyPI the name `mfu` belongs to another project; ours is openmfu.
Probe package_probe(const std::string& python) {
  constexpr std::string_view kScript =
      "from importlib.metadata import version, PackageNotFoundError\n"
      "try:\n    print(version('mfu'))\nexcept PackageNotFoundError:\n    pass\n";
  ProcessEnd end = run_command({python, "-"}, kScript, std::chrono::seconds(60));
  std::string_view found = trim(end.output);
  if (!end.good() || found.empty())
    return {"Python package names", true, "no foreign package 'mfu'", ""};
  return {"Python package names", false,
          fmt::format("the package 'mfu' {} in {} is another project with our module's name",
                      printable(found), python),
          "pip uninstall mfu (ours is called openmfu)"};
}

Probe counter_probe() {
  Result<FlopCounters> counters = FlopCounters::open({});
  if (!counters) {
    const std::string& why = counters.error().message;
    bool curable =
        why.find("apt-get") != std::string::npos || why.find("sysctl") != std::string::npos;
    return {"hardware counters", false, why, curable ? "do as said" : ""};
  }
  return {"hardware counters", true,
          fmt::format("floating-point operations by {} ({} events)", counters->events().front(),
                      counters->events().size()),
          ""};
}

}  // namespace

std::vector<Probe> probe_parts(const std::string& python) {
  std::vector<Probe> probes = {gemm_probe("OpenBLAS", openblas_gemm(Precision::fp32, 1)),
                               gemm_probe("oneDNN", onednn_gemm(Precision::fp32, 1)),
                               counter_probe(), torch_probe(python)};
  if (!python.empty()) probes.push_back(package_probe(python));
  return probes;
}

}  // namespace mfu
