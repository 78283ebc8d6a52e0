// In a program of your own: the FLOPs that a model needs, and the MFU of a measured step time.
#include <mfu/mfu.h>

#include <cstdio>

int main() {
  // Llama-3.1-8B, given by its shape. mfu::read_model("config.json", {}) reads a config instead.
  mfu::Result<mfu::ModelSpec> model = mfu::model_of_shape({.layers = 32,
                                                           .hidden = 4096,
                                                           .heads = 32,
                                                           .kv_heads = 8,
                                                           .head_dim = 128,
                                                           .ffn = 14336,
                                                           .vocab = 128256});
  if (!model.has_value()) return 1;
  mfu::Workload step{.phase = mfu::Phase::train, .batch = 8, .sequence = 8192};
  mfu::Result<mfu::FlopNeed> need = mfu::flop_per_step(*model, step);
  if (!need.has_value()) return 1;
  std::printf("%llu parameters, %s FLOP a step\n",
              static_cast<unsigned long long>(mfu::count_parameters(*model).total),
              need->model_flop.to_string().c_str());

  mfu::Result<mfu::Device> device =
      mfu::find_device(mfu::Catalog::builtin(), "NVIDIA H100 80GB HBM3");
  if (!device.has_value()) return 1;
  mfu::ChosenPeak peak = mfu::choose_peak({.device = &*device}, "bf16");
  mfu::Result<mfu::Utilization> used =
      mfu::utilization_of({.work = {{.model_flop = need->model_flop, .peak = peak.rate}},
                           .duration = std::chrono::milliseconds(980),
                           .devices = 8});
  if (!used.has_value()) return 1;
  std::printf("MFU %.1f%%, %s\n", used->mfu.value * 100,
              std::string(name_of(used->rating)).c_str());
}
