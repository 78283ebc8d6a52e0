// Damages run directories of monitors and of mfu run at random. Each must be read or refused with a
// message, without a crash and without more steps than there were records. MFU_MUTATIONS says how
// many times (default 2000), MFU_SEED where to begin.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/file.h"
#include "mfu/monitor.h"
#include "mfu/record.h"
#include "monitor/journal.h"
#include "monitor/testing.h"

namespace mfu {
namespace {

namespace fs = std::filesystem;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

using Random = std::mt19937_64;

// Makes one change, of the kind that disks, kills and people make.
void mutate(std::string& bytes, Random& random) {
  std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
  switch (random() % 8) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1:
      if (!bytes.empty()) bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.erase(at, random() % 200);
      break;
    case 4:
      bytes.insert(at, bytes.substr(random() % (bytes.size() + 1), random() % 300));
      break;
    case 5:
      for (std::size_t i = at; i < bytes.size() && i < at + 8; ++i) bytes[i] = '\xff';
      break;
    case 6:
      for (std::size_t i = at; i < bytes.size() && i < at + random() % 500; ++i) bytes[i] = '\0';
      break;
    default:
      for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i) {
        bytes[at + i] = static_cast<char>("0123456789-eE.\"{}[],:null"[random() % 25]);
      }
  }
}

struct Original {
  std::string path, bytes;
};

class MutationTest : public RegionTest {
 protected:
  // A copy of the runs that version 0.1.0 left, and a run of this version with every kind of
  // record.
  MutationTest() {
    fs::copy(MFU_OLD_DIR, folder_ + "/old", fs::copy_options::recursive);
    MonitorOptions options;
    options.config.run_dir = folder_ + "/new";
    options.config.generation_every = 3;
    options.model_json = kSmallLlama;
    options.peak = FlopRate{1e12};
    options.queue_capacity = 16;
    std::unique_ptr<Monitor> monitor = std::move(Monitor::open(std::move(options))).value();
    for (std::uint64_t step = 0; step < 20; ++step) {
      monitor->count_tokens(5);
      monitor->add_reading({.step = step, .shape = StepShape::of(1, 8), .flop = 3'000'000});
      std::uint32_t ticket = monitor->log_awaited({.step = step, .duration_s = 0.5});
      monitor->complete(ticket, {.loss = 1.0, .shape = StepShape::of(1, 8)});
      monitor->flush(std::chrono::seconds(60));
    }
    // Leaves the queue as a killed process does.
    for (const auto& each : fs::directory_iterator(regions_)) {
      fs::copy_file(each.path(), folder_ + "/new/left.queue");
    }
    monitor->close();
    std::string facts = facts_files(folder_ + "/new")[0];
    JournalFacts parsed = *parse_facts(*read_file(facts), facts);
    parsed.ended = false;
    parsed.queue = folder_ + "/new/left.queue";
    EXPECT_TRUE(write_file(facts, to_json(parsed)).has_value());
    facts = folder_ + "/old/killed/run/steps-host-2560-0.json";
    std::string text = *read_file(facts);
    text.replace(text.find("QUEUE"), 5, folder_ + "/old/killed/run/steps.queue");
    EXPECT_TRUE(write_file(facts, text).has_value());
    for (const std::string& run : runs_) {
      for (const auto& each : fs::directory_iterator(run)) {
        originals_.push_back({each.path(), *read_file(each.path())});
      }
    }
  }

  static void write(const std::string& path, const std::string& bytes) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }

  std::vector<std::string> runs_ = {folder_ + "/new", folder_ + "/old/ended/run",
                                    folder_ + "/old/killed/run", folder_ + "/old/counted"};
  std::vector<Original> originals_;
};

TEST_F(MutationTest, a_damaged_run_directory_is_read_as_far_as_it_goes) {
  std::uint64_t seed = setting("MFU_SEED", 1), most = setting("MFU_MUTATIONS", 2000), read = 0;
  for (std::uint64_t round = 0; round < most; ++round) {
    Random random(seed + round);
    const Original& victim = originals_[random() % originals_.size()];
    std::string bytes = victim.bytes;
    for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) mutate(bytes, random);
    write(victim.path, bytes);
    std::string run = fs::path(victim.path).parent_path();
    Result<RecordedSteps> steps = read_recorded_steps(run);
    if (steps.has_value()) {
      ++read;
      ASSERT_LE(steps->reports.size(), 80u) << "seed " << seed + round;
      for (const StepReport& each : steps->reports) ASSERT_FALSE(to_json(each).empty());
    } else {
      ASSERT_FALSE(steps.error().message.empty());
    }
    if (run.ends_with("counted")) (void)read_run(run);
    bool recovers = random() % 64 == 0;
    if (recovers) recover_journals(run);
    for (const Original& each : originals_) {
      if (recovers || each.path == victim.path) write(each.path, each.bytes);
    }
  }
  RecordProperty("read", static_cast<int>(read));
}

}  // namespace
}  // namespace mfu
