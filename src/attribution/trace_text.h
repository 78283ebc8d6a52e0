// For the tests: writes a Kineto trace event by event, with times in nanoseconds.
#pragma once

#include <fmt/format.h>

#include <string>

#include "trace/trace.h"

namespace mfu {

class TraceText {
 public:
  std::string device_name = "NVIDIA A100-SXM4-80GB";

  void kernel(const std::string& name, std::int64_t start, std::int64_t duration, int stream,
              int correlation) {
    add("kernel", name, start, duration, 0, stream,
        fmt::format(R"("device":0,"stream":{},"correlation":{})", stream, correlation));
  }
  void copy(std::int64_t start, std::int64_t duration, int stream, int correlation) {
    add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", start, duration, 0, stream,
        fmt::format(R"("device":0,"stream":{},"correlation":{})", stream, correlation));
  }
  void call(const std::string& name, std::int64_t start, std::int64_t duration, int thread,
            int correlation) {
    add("cuda_runtime", name, start, duration, 100, thread,
        fmt::format(R"("correlation":{})", correlation));
  }
  void op(const std::string& name, std::int64_t start, std::int64_t duration, int thread,
          const std::string& arguments = "") {
    add("cpu_op", name, start, duration, 100, thread, arguments);
  }
  void mm(std::int64_t start, std::int64_t duration, int thread, int m, int n, int k) {
    op("aten::mm", start, duration, thread,
       fmt::format(R"("Input Dims":[[{},{}],[{},{}]],"Input type":["float","float"])", m, k, k, n));
  }
  void range(const std::string& name, std::int64_t start, std::int64_t duration, int thread) {
    add("user_annotation", name, start, duration, 100, thread, "");
  }
  void frame(const std::string& name, std::int64_t start, std::int64_t duration, int thread) {
    add("python_function", name, start, duration, 100, thread, "");
  }
  void set_rank(int rank, int world) {
    rank_ = fmt::format(R"("distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},)",
                        rank, world);
  }

  std::string text() const {
    return fmt::format(
        R"({{"schemaVersion":1,{}"deviceProperties":[{{"id":0,"name":"{}"}}],"traceEvents":[{}]}})",
        rank_, device_name, events_);
  }
  Result<Trace> read(const std::string& name = "test.json") const {
    return read_trace_bytes(text(), name);
  }

 private:
  void add(const std::string& category, const std::string& name, std::int64_t start,
           std::int64_t duration, int process, int thread, const std::string& arguments) {
    events_ += fmt::format(
        R"({}{{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{{}}}}})",
        events_.empty() ? "" : ",\n", category, name, process, thread, start / 1000, start % 1000,
        duration / 1000, duration % 1000, arguments);
  }
  std::string events_, rank_;
};

}  // namespace mfu
