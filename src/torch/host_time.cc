#include "torch/host_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "record/recorder.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kHelpers = 16;  // threads other than the loop's that are looked at
constexpr std::uint64_t kLongStepNs = 4'000'000;     // steps from this length on look at them
constexpr std::uint64_t kLookAgainNs = 500'000'000;  // for threads that came since

// The scheduler's account of one thread.
struct Account {
  int file = -1;
  long thread = 0;
  std::uint64_t waited_ns = 0;  // ready to run, not running
};

struct Host {
  Account loop;
  std::array<Account, kHelpers> helpers;
  std::size_t helper_count = 0;
  std::uint64_t looked_ns = 0;
  std::uint64_t thread_ns = 0, process_ns = 0;  // processor time at the last step's end
  std::uint64_t loading_ns = 0, loading_waited_ns = 0;
  std::uint64_t loading_start_ns = 0, loading_start_waited_ns = 0, loading_start_thread_ns = 0;
  std::uint64_t loading_thread_ns = 0;
  long loop_thread = 0;
};

Host host;
std::uint64_t all_loading_ns = 0, all_loading_cpu_ns = 0;

std::uint64_t clock_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

long thread_number() {
  return syscall(SYS_gettid);
}

void open_account(Account& account, long thread) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", thread);
  account = {.file = open(path, O_RDONLY | O_CLOEXEC), .thread = thread};
}

// The second of the three numbers; 0 if the kernel keeps none.
std::uint64_t waited(const Account& account) {
  char text[96];
  ssize_t size = account.file < 0 ? 0 : pread(account.file, text, sizeof text - 1, 0);
  if (size <= 0) return 0;
  text[size] = 0;
  char* end = nullptr;
  std::strtoull(text, &end, 10);
  return std::strtoull(end, nullptr, 10);
}

void look_for_helpers() {
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return;
  while (dirent* entry = readdir(folder)) {
    long thread = std::strtol(entry->d_name, nullptr, 10);
    if (thread <= 0 || thread == host.loop_thread || host.helper_count == kHelpers) continue;
    auto end = host.helpers.begin() + static_cast<std::ptrdiff_t>(host.helper_count);
    bool known = std::any_of(host.helpers.begin(), end,
                             [&](const Account& each) { return each.thread == thread; });
    if (known) continue;
    Account& account = host.helpers[host.helper_count++];
    open_account(account, thread);
    account.waited_ns = waited(account);
  }
  closedir(folder);
}

// The longest time that a thread which works for the loop's thread was kept from a core.
std::uint64_t helpers_waited() {
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < host.helper_count; ++i) {
    Account& each = host.helpers[i];
    std::uint64_t now = waited(each);
    if (now > each.waited_ns) longest = std::max(longest, now - each.waited_ns);
    each.waited_ns = std::max(now, each.waited_ns);
  }
  return longest;
}

// Takes `wanted`, but not more than what is left.
std::uint64_t take(std::uint64_t& left, std::uint64_t wanted) {
  std::uint64_t taken = std::min(left, wanted);
  left -= taken;
  return taken;
}

// Processor time of one process: its user and system ticks. 0 if it is gone.
std::uint64_t process_cpu_ns(long pid) {
  char path[64], text[512];
  std::snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* at = std::strrchr(text, ')');  // its name may hold blanks
  if (at == nullptr) return 0;
  unsigned long long user = 0, system = 0;
  if (std::sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                  &system) != 2) {
    return 0;
  }
  auto ticks = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return (user + system) * (1'000'000'000u / std::max<std::uint64_t>(ticks, 1));
}

// Loader workers are children of the thread that made them.
void add_children(HostUse& use) {
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return;
  while (dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    char path[300], text[4096];
    std::snprintf(path, sizeof path, "/proc/self/task/%s/children", entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[std::max<ssize_t>(size, 0)] = 0;
    char* end = text;
    for (long pid = std::strtol(end, &end, 10); pid > 0; pid = std::strtol(end, &end, 10)) {
      use.children_cpu_ns += process_cpu_ns(pid);
      ++use.children;
    }
  }
  closedir(folder);
}

bool is_loop() {
  return host.loop_thread != 0 && host.loop_thread == thread_number();
}

}  // namespace

void watch_host() noexcept {
  forget_host();
  host.loop_thread = thread_number();
  open_account(host.loop, host.loop_thread);
  host.loop.waited_ns = waited(host.loop);
  host.thread_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
  host.process_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

void begin_loading() noexcept {
  if (!is_loop()) return;
  host.loading_start_ns = clock_of(CLOCK_MONOTONIC);
  host.loading_start_waited_ns = waited(host.loop);
  host.loading_start_thread_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
}

void end_loading() noexcept {
  if (!is_loop() || host.loading_start_ns == 0) return;
  std::uint64_t loading_ns = clock_of(CLOCK_MONOTONIC) - host.loading_start_ns;
  std::uint64_t cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID) - host.loading_start_thread_ns;
  host.loading_ns += loading_ns;
  std::uint64_t kept_ns = waited(host.loop) - host.loading_start_waited_ns;
  host.loading_waited_ns += kept_ns;
  host.loading_thread_ns += cpu_ns;
  all_loading_ns += loading_ns - std::min(loading_ns, kept_ns);  // other processes had the cores
  all_loading_cpu_ns += cpu_ns;
  host.loading_start_ns = 0;
}

void book_host(const StepHost& step) noexcept {
  if (!is_loop()) {
    // The thread that first ends a step is the loop's. What was before is not known.
    if (host.loop_thread == 0) watch_host();
    return;
  }
  Recorder& recorder = Recorder::process();
  std::uint64_t thread = clock_of(CLOCK_THREAD_CPUTIME_ID), now_waited = waited(host.loop);
  std::uint64_t left = step.step_ns;
  std::uint64_t preempted = take(left, now_waited - host.loop.waited_ns);
  std::uint64_t loading = host.loading_ns - std::min(host.loading_ns, host.loading_waited_ns);
  loading = take(left, loading);
  std::uint64_t own = thread - host.thread_ns;
  std::uint64_t compute = take(left, own - std::min(own, host.loading_thread_ns));
  std::uint64_t io = take(left, step.checkpoint_ns);
  take(left, step.communication_ns);  // for other ranks: `communication` says how long
  std::uint64_t process = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  if (step.step_ns >= kLongStepNs) {
    // The loop waits for its own threads. They compute for it, or other processes keep them from
    // that.
    std::uint64_t others = process - host.process_ns;
    compute += take(left, others - std::min(others, own));
    preempted += take(left, helpers_waited());
    std::uint64_t now = clock_of(CLOCK_MONOTONIC);
    if (now - host.looked_ns > kLookAgainNs) {
      host.looked_ns = now;
      look_for_helpers();
    }
  }
  recorder.add_host(HostLine::compute, compute);
  recorder.add_host(HostLine::loader, loading);
  recorder.add_host(HostLine::io, io);
  recorder.add_host(HostLine::preempted, preempted);
  recorder.add_host(step.on_device ? HostLine::device_wait : HostLine::sleep, left);
  host.thread_ns = thread;
  host.process_ns = process;
  host.loop.waited_ns = now_waited;
  host.loading_ns = host.loading_waited_ns = host.loading_thread_ns = 0;
}

HostUse HostUse::operator-(const HostUse& before) const {
  auto less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  return {less(wall_ns, before.wall_ns),
          less(cpu_ns, before.cpu_ns),
          less(loading_ns, before.loading_ns),
          less(loading_cpu_ns, before.loading_cpu_ns),
          less(children_cpu_ns, before.children_cpu_ns),
          children,
          less(waited_ns, before.waited_ns)};
}

HostUse loading_use() noexcept {
  HostUse use;
  use.loading_ns = all_loading_ns;
  use.loading_cpu_ns = all_loading_cpu_ns;
  return use;
}

HostUse host_use() noexcept {
  HostUse use = loading_use();
  use.wall_ns = clock_of(CLOCK_MONOTONIC);
  use.cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  use.waited_ns = waited(host.loop);
  add_children(use);
  return use;
}

void forget_host() noexcept {
  if (host.loop.file >= 0) close(host.loop.file);
  for (std::size_t i = 0; i < host.helper_count; ++i) {
    if (host.helpers[i].file >= 0) close(host.helpers[i].file);
  }
  host = {};
}

}  // namespace mfu::observer
