// Measures reading and linking traces (JSON, gzip, zstd): MB of JSON per CPU second, and the memory
// that it takes. It prints the best of several rounds, because other processes share the machine.
//   build/release/bench/trace_bench [--rounds N] trace.json.gz …
#include <mfu/trace.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double peak_resident_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5, first = 1;
  if (argc > 2 && std::strcmp(argv[1], "--rounds") == 0) {
    rounds = std::max(1, static_cast<int>(std::strtol(argv[2], nullptr, 10)));
    first = 3;
  }
  if (first >= argc) {
    std::fprintf(stderr, "usage: trace_bench [--rounds N] trace.json.gz ...\n");
    return 2;
  }
  std::printf("%10s %10s %10s %10s %10s  %s\n", "events", "JSON MB", "CPU ms", "MB/CPU s",
              "peak MB", "trace");
  for (int i = first; i < argc; ++i) {
    double best = 1e30, megabytes = 0;
    std::uint64_t events = 0;
    for (int round = 0; round < rounds; ++round) {
      double start = cpu_seconds();
      auto trace = mfu::read_traces({argv[i]});
      best = std::min(best, cpu_seconds() - start);
      if (!trace.has_value()) {
        std::fprintf(stderr, "%s\n", trace.error().message.c_str());
        return 2;
      }
      megabytes = static_cast<double>(trace->coverage(0).json_bytes) / 1e6;
      events = trace->coverage(0).events;
    }
    std::printf("%10llu %10.1f %10.1f %10.0f %10.0f  %s\n", static_cast<unsigned long long>(events),
                megabytes, best * 1e3, megabytes / best, peak_resident_mb(), argv[i]);
  }
  return 0;
}
