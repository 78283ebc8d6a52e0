#include "torch/host_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "record/recorder.h"
#include "torch/host_wait.h"

namespace mfu::observer {
namespace {

constexpr std::size_t kHelpers = 16;  // most threads besides the loop's that are checked
constexpr std::uint64_t kLongStepNs = 4'000'000;     // shorter steps do not check them
constexpr std::uint64_t kLookAgainNs = 500'000'000;  // how often new threads are looked for
// Waiting is reported from this time on, if it is at least one part in so many of all time.
constexpr std::uint64_t kWaitsNs = 50'000'000, kWaitsPart = 10;
constexpr std::uint64_t kMuchLeft = 64;  // less than one part in so many of a step is not looked at
constexpr std::uint64_t kTellCoresNs = 100'000'000;  // first report; then at twice the time

// The scheduler's account of one thread.
struct Account {
  int file = -1;
  long thread = 0;
  std::uint64_t waited_ns = 0;  // ready to run, not running
};

// How the loop's thread spent some time.
struct Use {
  std::uint64_t wall_ns = 0, waited_ns = 0, cpu_ns = 0;
};

// Something with a name that the loop does, such as waiting for a batch or saving.
struct Stretch {
  Use begun, sum;
  std::uint32_t depth = 0;
};

// Processor time of this process, and of those that it started.
struct CoresUsed {
  std::uint64_t at_ns = 0, own_ns = 0, children_ns = 0;
};

struct Host {
  Account loop;
  std::array<Account, kHelpers> helpers;
  std::size_t helper_count = 0;
  std::uint64_t looked_ns = 0;
  std::uint64_t thread_ns = 0;               // processor time at the last step's end
  std::uint64_t process_ns = 0, own_ns = 0;  // of all threads when last asked; its own since
  // Time that did not fit into the last steps, because two clocks are read one after the other. It
  // counts for the next step.
  std::uint64_t waited_over_ns = 0, own_over_ns = 0;
  Stretch loading, saving;
  long loop_thread = 0;
  Blocked seen;                    // when blocked time was booked last
  std::uint64_t blocked_ns = 0;    // not booked yet, because its reason is not known yet
  std::uint64_t watched_ns = 0;    // when the watch began
  std::uint64_t elsewhere_ns = 0;  // blocked by something other than a timer or a file
  bool waits_told = false;
  std::uint64_t blocked_known_ns = 0;  // blocked by the loop's own threads or by other ranks
  CoresUsed cores_before;              // when it was first read
  HostUse children_before;             // at the same time
  std::uint64_t tell_cores_ns = 0;     // when to report the use since then
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

// The second number of schedstat. 0 if the kernel keeps none.
std::uint64_t waited(const Account& account) {
  char text[96];
  ssize_t size = account.file < 0 ? 0 : pread(account.file, text, sizeof text - 1, 0);
  if (size <= 0) return 0;
  text[size] = 0;
  char* end = nullptr;
  std::strtoull(text, &end, 10);
  return std::strtoull(end, nullptr, 10);
}

// Whether this is a thread of the observer itself, for which nothing waits.
bool is_ours(long thread) {
  char path[64], name[16] = {};
  std::snprintf(path, sizeof path, "/proc/self/task/%ld/comm", thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t size = read(file, name, sizeof name - 1);
  close(file);
  return size > 4 && std::strncmp(name, "mfu-", 4) == 0;
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
    if (known || is_ours(thread)) continue;
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

// Reads a file of another process in /proc, at most `size` bytes. False if that process is gone.
bool read_of(long pid, const char* name, char* text, std::size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t got = read(file, text, size - 1);
  close(file);
  text[std::max<ssize_t>(got, 0)] = 0;
  return got > 0;
}

// Processor time of one process: its user and system ticks. 0 if it is gone.
std::uint64_t process_cpu_ns(long pid) {
  char text[512];
  if (!read_of(pid, "stat", text, sizeof text)) return 0;
  const char* at = std::strrchr(text, ')');  // its name may have spaces
  if (at == nullptr) return 0;
  unsigned long long user = 0, system = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel's text
  if (std::sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                  &system) != 2) {
    return 0;
  }
  auto ticks = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return (user + system) * (1'000'000'000u / std::max<std::uint64_t>(ticks, 1));
}

// How long a process was on a core or waited for one. If other processes had the cores, its
// processor time alone would look like waiting for a disk. The scheduler counts only its first
// thread; the ticks count all threads.
std::uint64_t process_ready_ns(long pid) {
  char text[128];
  unsigned long long ran = 0, waited = 0;
  if (read_of(pid, "schedstat", text, sizeof text)) {
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel's text
    std::sscanf(text, "%llu %llu", &ran, &waited);
  }
  return std::max<std::uint64_t>(ran, process_cpu_ns(pid)) + waited;
}

// Calls `visit` with the number of each child. Loader workers are children of the thread that made
// them.
template <typename Visit>
void for_children(Visit visit) {
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
      visit(pid);
    }
  }
  closedir(folder);
}

void add_children(HostUse& use) {
  for_children([&](long pid) {
    std::uint64_t ready_ns = process_ready_ns(pid);
    if (use.children < use.first_children.size()) {
      use.first_children[use.children] = {pid, ready_ns};
    }
    use.children_ready_ns += ready_ns;
    ++use.children;
  });
}

std::uint64_t nanoseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_usec) * 1000u;
}

CoresUsed cores_used(std::uint64_t now_ns) {
  rusage ended{};
  getrusage(RUSAGE_CHILDREN, &ended);
  CoresUsed used{now_ns, clock_of(CLOCK_PROCESS_CPUTIME_ID),
                 nanoseconds(ended.ru_utime) + nanoseconds(ended.ru_stime)};
  for_children([&](long pid) { used.children_ns += process_cpu_ns(pid); });
  return used;
}

bool is_loop() {
  return host.loop_thread != 0 && host.loop_thread == thread_number();
}

Use use_now() {
  return {clock_of(CLOCK_MONOTONIC), waited(host.loop), clock_of(CLOCK_THREAD_CPUTIME_ID)};
}

void begin_stretch(Stretch& stretch) {
  if (!is_loop() || stretch.depth++ != 0) return;
  look_away();
  stretch.begun = use_now();
}

// Returns how long the stretch took.
Use end_stretch(Stretch& stretch) {
  if (!is_loop() || stretch.depth == 0) return {};
  if (--stretch.depth != 0) return {};
  look_again();
  Use now = use_now(),
      use{now.wall_ns - stretch.begun.wall_ns, now.waited_ns - stretch.begun.waited_ns,
          now.cpu_ns - stretch.begun.cpu_ns};
  stretch.sum.wall_ns += use.wall_ns;
  stretch.sum.waited_ns += use.waited_ns;
  stretch.sum.cpu_ns += use.cpu_ns;
  return use;
}

std::uint64_t less(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}

// If the thread was seen to wait for something else, a note says so. That time is not booked.
void tell_waits(std::uint64_t waited_ns) {
  host.elsewhere_ns += waited_ns;
  if (host.waits_told || host.elsewhere_ns < kWaitsNs) return;
  if (host.elsewhere_ns * kWaitsPart < clock_of(CLOCK_MONOTONIC) - host.watched_ns) return;
  host.waits_told = true;
  Recorder::process().fact("main_thread", "waits");
}

// Tells how many cores the program's own processes use. The report, which knows all ranks, decides
// whether they or other programs fill the cores. Reading this takes a few hundred microseconds, so
// it is done ever more rarely.
void tell_cores(std::uint64_t now_ns) {
  if (now_ns < host.tell_cores_ns) return;
  CoresUsed now = cores_used(now_ns), &before = host.cores_before;
  HostUse children;
  add_children(children);
  if (before.at_ns == 0) {
    before = now;
    host.children_before = children;
    host.tell_cores_ns = now_ns + kTellCoresNs;
    return;
  }
  std::uint64_t passed = now_ns - before.at_ns;
  host.tell_cores_ns = now_ns + passed;
  char text[64];
  std::snprintf(
      text, sizeof text, "%.2f %.2f",
      static_cast<double>(less(now.own_ns, before.own_ns)) / static_cast<double>(passed),
      static_cast<double>(less(now.children_ns, before.children_ns)) / static_cast<double>(passed));
  Recorder::process().fact("cores_used", text);
  // Of its children: all together, and the busiest one. A child that waits for a core counts too.
  HostUse since = children - host.children_before;
  std::snprintf(text, sizeof text, "%.2f %.2f",
                static_cast<double>(since.children_ready_ns) / static_cast<double>(passed),
                static_cast<double>(since.busiest_child_ns) / static_cast<double>(passed));
  Recorder::process().fact("children_ready", text);
}

// Books blocked time to what the thread was seen to be blocked in. The rest is not booked.
void book_blocked(std::uint64_t blocked_ns, std::uint64_t known_ns, bool on_device) {
  Recorder& recorder = Recorder::process();
  host.blocked_ns += blocked_ns;
  host.blocked_known_ns += known_ns;
  Blocked now = blocked();
  double sleep = static_cast<double>(now.sleep_ns - host.seen.sleep_ns);
  double file = static_cast<double>(now.file_ns - host.seen.file_ns);
  std::uint64_t elsewhere = now.other_ns - host.seen.other_ns;
  bool looked = sleep + file > 0 || elsewhere != 0;
  if (!looked && !on_device) return;
  double other = static_cast<double>(less(elsewhere, host.blocked_known_ns));
  double all = sleep + file + other, left = static_cast<double>(host.blocked_ns);
  auto slept = static_cast<std::uint64_t>(all > 0 ? left * sleep / all : 0);
  auto in_files = static_cast<std::uint64_t>(all > 0 ? left * file / all : 0);
  recorder.add_host(HostLine::sleep, slept);
  recorder.add_host(HostLine::io, in_files);
  std::uint64_t rest = less(host.blocked_ns, slept + in_files);
  if (on_device) {
    recorder.add_host(HostLine::device_wait, rest);
  } else if (all > 0) {
    tell_waits(rest);
  }
  host.seen = now;
  host.blocked_ns = host.blocked_known_ns = 0;
}

}  // namespace

void watch_host() noexcept {
  forget_host();
  host.loop_thread = thread_number();
  open_account(host.loop, host.loop_thread);
  host.loop.waited_ns = waited(host.loop);
  host.thread_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
  host.process_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  host.watched_ns = clock_of(CLOCK_MONOTONIC);
  watch_blocked(host.loop_thread);
  host.seen = blocked();
}

void begin_loading() noexcept {
  begin_stretch(host.loading);
}

void end_loading() noexcept {
  Use use = end_stretch(host.loading);
  all_loading_ns += less(use.wall_ns, use.waited_ns);  // not while others had the cores
  all_loading_cpu_ns += use.cpu_ns;
}

void begin_saving() noexcept {
  begin_stretch(host.saving);
}

void end_saving() noexcept {
  end_stretch(host.saving);
}

void book_host(const StepHost& step) noexcept {
  if (!is_loop()) {
    // The thread that first ends a step is the loop's. What was before is not known.
    if (host.loop_thread == 0) watch_host();
    return;
  }
  Recorder& recorder = Recorder::process();
  std::uint64_t thread = clock_of(CLOCK_THREAD_CPUTIME_ID), left = step.step_ns;
  const Use &loading = host.loading.sum, &saving = host.saving.sum;
  std::uint64_t own = thread - host.thread_ns;
  std::uint64_t own_ns = less(own, loading.cpu_ns + saving.cpu_ns) + host.own_over_ns;
  std::uint64_t compute = take(left, own_ns);
  host.own_over_ns = own_ns - compute;
  host.own_ns += own;
  std::uint64_t loaded = take(left, less(loading.wall_ns, loading.waited_ns));
  std::uint64_t saved = take(left, less(saving.wall_ns, saving.waited_ns));
  // If little is left, the scheduler is not asked. A later question includes that time.
  std::uint64_t preempted = 0;
  if (left > step.step_ns / kMuchLeft) {
    std::uint64_t now_waited = waited(host.loop);
    std::uint64_t waited_ns = now_waited - host.loop.waited_ns + host.waited_over_ns;
    preempted = take(left, waited_ns);
    host.waited_over_ns = waited_ns - preempted;
    host.loop.waited_ns = now_waited;
  }
  // Waiting for other ranks is known: `communication` has it.
  std::uint64_t known = take(left, step.communication_ns);
  if (step.step_ns >= kLongStepNs) {
    // The loop waits for its own threads. They compute for it, or other processes keep them from
    // that.
    std::uint64_t process = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    std::uint64_t others = take(left, less(process - host.process_ns, host.own_ns));
    std::uint64_t kept = take(left, helpers_waited());
    host.process_ns = process;
    host.own_ns = 0;
    compute += others;
    preempted += kept;
    known += others + kept;
    std::uint64_t now = clock_of(CLOCK_MONOTONIC);
    tell_cores(now);
    if (now - host.looked_ns > kLookAgainNs) {
      host.looked_ns = now;
      look_for_helpers();
    }
  }
  recorder.add_host(HostLine::compute, compute);
  recorder.add_host(HostLine::loader, loaded);
  recorder.add_host(HostLine::io, saved);
  recorder.add_host(HostLine::preempted, preempted);
  if (left > step.step_ns / kMuchLeft) book_blocked(left, known, step.on_device);
  host.thread_ns = thread;
  host.loading.sum = host.saving.sum = {};
}

HostUse HostUse::operator-(const HostUse& before) const {
  std::uint64_t busiest = 0;
  for (const Child& child : first_children) {
    std::uint64_t ready_ns = child.ready_ns;
    for (const Child& earlier : before.first_children) {
      if (earlier.pid == child.pid) ready_ns = less(child.ready_ns, earlier.ready_ns);
    }
    busiest = std::max(busiest, ready_ns);
  }
  return {.wall_ns = less(wall_ns, before.wall_ns),
          .cpu_ns = less(cpu_ns, before.cpu_ns),
          .loading_ns = less(loading_ns, before.loading_ns),
          .loading_cpu_ns = less(loading_cpu_ns, before.loading_cpu_ns),
          .children = children,
          .children_ready_ns = less(children_ready_ns, before.children_ready_ns),
          .busiest_child_ns = busiest,
          .waited_ns = less(waited_ns, before.waited_ns),
          .loop_cpu_ns = less(loop_cpu_ns, before.loop_cpu_ns),
          .first_children = {}};
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
  use.loop_cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
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
