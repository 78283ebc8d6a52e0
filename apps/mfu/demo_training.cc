#include "demo_training.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

extern char** environ;

namespace mfu::app {

namespace {

// A text classifier as a newcomer would write it: rows are made one by one in Python, inside the
// training process, and the optimizer updates one tensor after the other.
constexpr const char* kProgram = R"(
import sys
try:
    import torch
except ImportError:
    sys.exit(3)
changed = "changed" in sys.argv

def row(index):
    generator = torch.Generator().manual_seed(index)
    words = torch.randint(0, 2000, (1024,), generator=generator)
    kept = [int(word) for word in words if int(word) % 7]
    return torch.tensor((kept + [0] * 32)[:32]), words.sum() % 2

class Words(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = [row(index) for index in range(640)] if changed else None
    def __len__(self):
        return 640
    def __getitem__(self, index):
        return self.rows[index] if self.rows else row(index)

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(2000, 128)
        layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(128, 2)
    def forward(self, words):
        return self.head(self.body(self.words(words)).mean(1))

torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), fused=changed)
for words, labels in torch.utils.data.DataLoader(Words(), batch_size=32):
    loss = torch.nn.functional.cross_entropy(model(words), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
)";

}  // namespace

Result<RunRecord> run_training(const DemoRun& run) {
  std::error_code error;
  std::filesystem::create_directories(run.folder, error);
  std::string program = run.folder + "/demo.py";
  std::ofstream(program) << kProgram;
  std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::string directory = run.folder + "/run";
  const char* arguments[] = {self.c_str(),
                             "run",
                             "--explain",
                             "--dir",
                             directory.c_str(),
                             "--",
                             run.python.c_str(),
                             program.c_str(),
                             run.changed ? "changed" : "as-it-was",
                             nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (run.shown) {
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = -1;
  int started = ::posix_spawnp(&child, self.c_str(), &actions, nullptr,
                               const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  bool ended = started == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status);
  if (ended && WEXITSTATUS(status) == 0) return read_run(directory);
  constexpr int kNoTorch = 3;
  std::string what =
      ended && WEXITSTATUS(status) == kNoTorch ? "has no PyTorch" : "could not train a small model";
  return fail(ErrorCode::not_found,
              fmt::format("{} {}. Set MFU_PYTHON or --python to an interpreter that has PyTorch",
                          run.python, what));
}

}  // namespace mfu::app
