#include "demo_training.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

extern char** environ;

namespace mfu::app {

namespace {

// A text classifier on made-up data, its loader in the training process as newcomers have it.
constexpr const char* kProgram = R"(
import sys
try:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
except ImportError:
    sys.exit(3)

class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        words = torch.randint(0, 2000, (64,), generator=generator)
        return words, words.sum() % 2

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(2000, 256)
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(256, 2)
    def forward(self, words):
        return self.head(self.body(self.words(words)).mean(1))

torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(Words(), batch_size=32)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True,
             schedule=schedule(wait=0, warmup=2, active=4, repeat=1),
             on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])) as profiler:
    for step, (words, labels) in zip(range(6), loader):
        loss = torch.nn.functional.cross_entropy(model(words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
)";

Failure without(const std::string& python, const std::string& problem) {
  return fail(ErrorCode::not_found,
              fmt::format("{} {}: set MFU_PYTHON or --python to an interpreter that has PyTorch",
                          python, problem));
}

}  // namespace

Result<std::string> profile_training(const std::string& python) {
  std::string folder = (std::filesystem::temp_directory_path() / "mfu-demo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return fail(ErrorCode::io, fmt::format("cannot make a folder like {}", folder));
  }
  std::string path = folder + "/trace.json.gz";
  const char* arguments[] = {python.c_str(), "-c", kProgram, path.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  int started = ::posix_spawnp(&child, python.c_str(), &actions, nullptr,
                               const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  bool ended = started == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status);
  bool written = ended && WEXITSTATUS(status) == 0 && std::filesystem::exists(path);
  if (written) return path;
  remove_profile(path);
  if (started != 0) return without(python, "cannot be started");
  constexpr int kNoTorch = 3;
  if (ended && WEXITSTATUS(status) == kNoTorch) return without(python, "has no PyTorch");
  return without(python, "could not train and profile a small model");
}

void remove_profile(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(path).parent_path(), ignored);
}

}  // namespace mfu::app
