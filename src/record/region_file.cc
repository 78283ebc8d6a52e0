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
  header.rank = environment_number("RANK");
  header.world_size = environment_number("WORLD_SIZE");
  header.local_rank = environment_number("LOCAL_RANK");
  const char* run = std::getenv("MFU_RUN_ID");
  std::snprintf(header.run, sizeof header.run, "%s", run == nullptr ? "" : run);
  header.attempt = static_cast<std::uint32_t>(std::max(environment_number("MFU_ATTEMPT"), 0));
}

// Beyond a limit on file sizes the kernel would send SIGXFSZ, which ends a program that never asked
// for us: look first.
bool file_limit_allows(std::size_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         limit.rlim_cur >= bytes;
}

// Every page there now: a store into a hole of a full tmpfs would be a SIGBUS.
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
  // The name in parentheses may hold anything, also blanks and parentheses: count from its end.
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
    if (!plain) letter = '_';  // no '-': it parts host from pid in file names
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
  // Under its name only when whole: a drainer never sees a half-made one.
  if (rename(hidden.c_str(), path.c_str()) != 0) return give_up(path);
  return region;
}

}  // namespace mfu
