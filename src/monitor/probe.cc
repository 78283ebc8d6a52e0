// For the Python tests: a short run with every file sink on, in the folder given. With `forever` it
// logs until it is killed; with `hold ADDRESS` Prometheus may fetch until standard input ends.
#include <cstdio>
#include <thread>

#include "mfu/monitor.h"

namespace {

constexpr const char* kModel =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":256,)"
    R"("intermediate_size":1024,"num_hidden_layers":4,"num_attention_heads":8,"vocab_size":1000,)"
    R"("num_key_value_heads":8,"max_position_embeddings":512,"tie_word_embeddings":false})";

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::string folder = argv[1];
  std::string manner = argc > 2 ? argv[2] : "";
  bool forever = manner == "forever";
  mfu::MonitorOptions options;
  options.config.mode = mfu::SmartMode{};
  options.config.generation_every = 5;
  options.config.output_dir = folder;
  options.config.csv = folder + "/steps.csv";
  options.config.tensorboard = folder + "/board";
  options.config.prometheus = argc > 3 ? argv[3] : folder + "/mfu.prom";
  options.config.run_dir = folder + "/run";
  options.config.precision = mfu::Precision::bf16;
  options.model_json = kModel;
  options.peak = mfu::FlopRate{5e12};
  options.bandwidth = mfu::ByteRate{1e12};
  options.peak_source = "made up, \"quoted\"";
  auto opened = mfu::Monitor::open(std::move(options));
  if (!opened.has_value()) return 1;
  mfu::Monitor& monitor = **opened;
  mfu::StepShape first = mfu::StepShape::of(8, 128);
  monitor.add_reading({.step = 0, .shape = first, .flop = 12'345'678'901u});
  for (std::uint64_t step = 0; forever || step < 25; ++step) {
    monitor.tokens().add_decode(16, 16 * (100 + step));
    monitor.log_step({.step = step,
                      .epoch = 0.5,
                      .loss = 3.0 / static_cast<double>(step + 1),
                      .grad_norm = 0.25,
                      .learning_rate = 1e-4,
                      .duration_s = 0.1 + 0.001 * static_cast<double>(step),
                      .shape = mfu::StepShape::of(8, 64 + step % 100)});
    if (forever) std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (!forever && step % 5 == 4) monitor.flush(std::chrono::seconds(60));
  }
  while (manner == "hold" && std::getchar() != EOF) continue;
  monitor.close();
  for (const std::string& warning : monitor.warnings())
    std::fprintf(stderr, "%s\n", warning.c_str());
  return 0;
}
