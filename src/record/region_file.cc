#include "record/region_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mfu {

namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

Failure system_failure(const std::string& what) {
  return fail(ErrorCode::io, what + ": " + std::strerror(errno));
}

std::int32_t environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return -1;
  char* end = nullptr;
  long number = std::strtol(text, &end, 10);
  return *end == 0 && number >= 0 && number < (1 << 30) ? static_cast<std::int32_t>(number) : -1;
}

struct Place {
  std::int32_t rank = -1, world_size = -1, local_rank = -1;
};

// The rank from the variables of torchrun and its like, else from those of the scheduler that
// started each rank. Slurm's variables count only inside a step (`srun`): a batch script has a
// number of tasks too, but is one process.
Place place_of_environment() {
  Place place{environment_number("RANK"), environment_number("WORLD_SIZE"),
              environment_number("LOCAL_RANK")};
  if (place.rank >= 0) return place;
  static constexpr const char* kNames[][3] = {
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};
  for (const auto& names : kNames) {
    Place other{environment_number(names[0]), environment_number(names[1]),
                environment_number(names[2])};
    if (other.rank >= 0 && other.world_size > other.rank) return other;
  }
  return place;
}

void set_affinity(RegionHeader& header) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (std::size_t cpu = 0; cpu < header.affinity.size() * 64; ++cpu) {
    if (CPU_ISSET(cpu, &set)) header.affinity[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  }
}

void begin_header(RegionHeader& header) {
  header.magic = kRegionMagic;
  header.version = kRegionVersion;
  header.region_bytes = sizeof(Region);
  header.pid = static_cast<std::uint32_t>(getpid());
  header.parent_pid = static_cast<std::uint32_t>(getppid());
  header.process_start_ticks = process_start_ticks(header.pid);
  header.start_monotonic_ns = monotonic_ns();
  header.start_realtime_ns = realtime_ns();
  header.last_ns = header.start_monotonic_ns;
  std::snprintf(header.host, sizeof header.host, "%s", host_name().c_str());
  set_affinity(header);
  Place place = place_of_environment();
  header.rank = place.rank;
  header.world_size = place.world_size;
  header.local_rank = place.local_rank;
  const char* run = std::getenv("MFU_RUN_ID");
  std::snprintf(header.run, sizeof header.run, "%s", run == nullptr ? "" : run);
  // The launcher's attempt, plus how often torchrun restarted its workers.
  header.attempt =
      static_cast<std::uint32_t>(std::max(environment_number("MFU_ATTEMPT"), 0) +
                                 std::max(environment_number("TORCHELASTIC_RESTART_COUNT"), 0));
}

// Checks the limit on file sizes first. Beyond it the kernel sends SIGXFSZ, which would end the
// program.
bool file_limit_allows(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         limit.rlim_cur >= bytes;
}

// Allocates every page now, because a store into a hole of a full tmpfs is a SIGBUS.
bool reserve(int descriptor, std::size_t bytes) {
  if (fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
  static constexpr char kZeros[65536] = {};
  for (std::size_t done = 0; done < bytes;) {
    ssize_t written = write(descriptor, kZeros, std::min(bytes - done, sizeof kZeros));
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

// Maps a complete file. If `over` is given, its content is copied to the file first.
Result<Region*> map_region(int descriptor, const std::string& path, Region* over) {
  auto map = [&](void* at, int flags) {
    return mmap(at, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE | flags,
                descriptor, 0);
  };
  void* memory = map(nullptr, 0);
  if (memory == MAP_FAILED) return system_failure(path);
  if (over == nullptr) return static_cast<Region*>(memory);
  std::memcpy(memory, static_cast<const void*>(over), sizeof(Region));
  void* taken = map(over, MAP_FIXED);
  munmap(memory, sizeof(Region));
  if (taken == MAP_FAILED) return system_failure(path);
  return over;
}

bool write_whole(int descriptor, const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  for (std::size_t done = 0; done < bytes;) {
    ssize_t written = pwrite(descriptor, at + done, bytes - done, static_cast<off_t>(done));
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

Result<Region*> create_private() {
  void* memory =
      mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_failure("memory for the counters");
  Region* region = static_cast<Region*>(memory);
  begin_header(region->header);
  return region;
}

}  // namespace

std::uint64_t monotonic_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}

std::uint64_t realtime_ns() {
  return clock_ns(CLOCK_REALTIME);
}

std::uint64_t process_start_ticks(std::uint32_t pid) {
  std::string path = "/proc/" + std::to_string(pid) + "/stat";
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  ssize_t size = file.number() < 0 ? 0 : read(file.number(), text, sizeof text - 1);
  if (size <= 0) return 0;
  text[size] = 0;
  // The name in parentheses may hold blanks and parentheses, so count from its end.
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || (at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X'))) return 0;
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

std::string host_name() {
  char name[64] = "";
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == 0) return "host";
  std::string safe = name;
  for (char& letter : safe) {
    bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                 (letter >= '0' && letter <= '9') || letter == '.' || letter == '_';
    if (!plain) letter = '_';  // not '-', which separates host and pid in file names
  }
  if (safe[0] == '.') safe[0] = '_';
  return safe;
}

Result<Region*> create_region(const std::string& folder, Region* over) {
  if (folder.empty()) return create_private();
  if (!file_limit_allows(sizeof(Region))) {
    return fail(ErrorCode::io, folder + ": the limit on file sizes (ulimit -f) leaves no room");
  }
  std::string name =
      host_name() + "-" + std::to_string(getpid()) + "-" + std::to_string(monotonic_ns());
  std::string path = folder + "/" + name + ".region", hidden = folder + "/." + name;
  Descriptor file(open(hidden.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.number() < 0) return system_failure(hidden);
  auto give_up = [&](const std::string& what) {
    Failure failure = system_failure(what);
    unlink(hidden.c_str());
    return failure;
  };
  if (!reserve(file.number(), sizeof(Region))) return give_up(hidden);
  if (over != nullptr && !write_whole(file.number(), over, sizeof(Region))) return give_up(hidden);
  void* memory =
      mmap(over, sizeof(Region), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_POPULATE | (over != nullptr ? MAP_FIXED : 0), file.number(), 0);
  if (memory == MAP_FAILED) return give_up(hidden);
  Region* region = static_cast<Region*>(memory);
  if (over == nullptr) begin_header(region->header);
  // It gets its name only when it is complete, so that a drainer never sees half of it.
  if (rename(hidden.c_str(), path.c_str()) != 0) return give_up(path);
  return region;
}

namespace {

// A process with a limit on file sizes may still map a large file that exists. So it asks the
// launcher, which drains the folder, to make one. Waits two seconds at most.
Result<Region*> ask_for_region(const std::string& folder, Region* over) {
  std::string mine = std::to_string(getpid());
  std::string wish = folder + "/" + std::string(kWish) + mine;
  std::string blank = folder + "/" + std::string(kBlank) + mine;
  Descriptor asked(open(wish.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (asked.number() < 0) return system_failure(wish);
  for (int i = 0; i < 40; ++i) {
    Descriptor file(open(blank.c_str(), O_RDWR | O_CLOEXEC));
    if (file.number() < 0) {
      timespec pause{0, 50'000'000};
      nanosleep(&pause, nullptr);
      continue;
    }
    Region* region = MFU_TRY(map_region(file.number(), blank, over));
    if (over == nullptr) begin_header(region->header);
    std::string path =
        folder + "/" + host_name() + "-" + mine + "-" + std::to_string(monotonic_ns()) + ".region";
    if (rename(blank.c_str(), path.c_str()) != 0) return system_failure(path);
    return region;
  }
  unlink(wish.c_str());
  return fail(ErrorCode::io, folder + ": the launcher made no file for the counters");
}

std::string who() {
  std::int32_t rank = place_of_environment().rank;
  std::string process = "process " + std::to_string(getpid());
  return rank < 0 ? process : "rank " + std::to_string(rank) + " (" + process + ")";
}

// Tells the launcher that this process counts but that nobody can read its counts.
void leave_note(const std::string& folder, const std::string& why) {
  std::string text = who() + " is missing here: its counters could not be made (" + why + ")\n";
  std::string path = folder + "/note-" + std::to_string(getpid()) + ".txt";
  if (!file_limit_allows(text.size())) return;
  Descriptor file(open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
  if (file.number() >= 0 && write(file.number(), text.data(), text.size()) < 0) {
    unlink(path.c_str());
  }
}

}  // namespace

Result<Region*> create_region_or_near(const std::string& folder, Region* over, bool patient,
                                      std::string& note) {
  Result<Region*> made = create_region(folder, over);
  if (made.has_value() || folder.empty()) return made;
  std::string why = made.error().message;
  const char* spare = std::getenv("MFU_REGION_SPARE");
  if (spare != nullptr && *spare != 0) {
    made = create_region(spare, over);
    if (made.has_value()) note = who() + ": " + why + "; its counters are in " + spare;
  }
  if (!made.has_value() && patient && !file_limit_allows(sizeof(Region))) {
    made = ask_for_region(folder, over);
    if (made.has_value()) note = who() + ": " + why + "; the launcher made room for its counters";
  }
  if (!made.has_value()) leave_note(folder, why);
  return made;
}

}  // namespace mfu
