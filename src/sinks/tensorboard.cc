// Writes TensorBoard's event files: TFRecord framing (length, masked CRC of the length, data,
// masked CRC of the data) around tensorflow.Event messages. The formats are in
// tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>

#include "base/append.h"
#include "base/crc32c.h"
#include "mfu/sink.h"

namespace mfu {

namespace {

template <typename T>
void append_raw(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // all machines that we build for are little-endian
  to.append(bytes, sizeof(T));
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7f) | 0x80);
  to += static_cast<char>(value);
}

// Protobuf wire types.
enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void append_key(std::string& to, unsigned field, Wire wire) {
  append_varint(to, field << 3 | static_cast<unsigned>(wire));
}

void append_bytes(std::string& to, unsigned field, std::string_view bytes) {
  append_key(to, field, Wire::bytes);
  append_varint(to, bytes.size());
  to += bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void append_record(std::string& to, std::string_view data) {
  std::string length;
  append_raw(length, static_cast<std::uint64_t>(data.size()));
  to += length;
  append_raw(to, masked_crc(length));
  to += data;
  append_raw(to, masked_crc(data));
}

std::string event_start(std::chrono::nanoseconds time) {
  std::string event;
  append_key(event, 1, Wire::fixed64);  // wall_time
  append_raw(event, static_cast<double>(time.count()) / 1e9);
  return event;
}

// Event.summary.value: tag 1, simple_value 2, metadata 9 {plugin_data 1 {plugin_name 1},
// description 3}.
std::string summary_value(const StepMetric& scalar, std::string_view description) {
  std::string value;
  append_bytes(value, 1, scalar.name);
  append_key(value, 2, Wire::fixed32);
  append_raw(value, static_cast<float>(scalar.value));
  if (!description.empty()) {
    std::string plugin, metadata;
    append_bytes(plugin, 1, "scalars");
    append_bytes(metadata, 1, plugin);
    append_bytes(metadata, 3, description);
    append_bytes(value, 9, metadata);
  }
  return value;
}

// The chart's description says what is behind a utilization. The source may change from step to
// step, which the log shows; the chart has the first one.
std::string description_of(const StepReport& report) {
  const UtilizationBasis& basis = *report.basis;
  return fmt::format(
      "convention {}, FLOPs {}, peak {} of {} device{}{}", describe(basis.convention).name,
      report.source ? name_of(*report.source) : "not known",
      basis.peak ? rate_text(*basis.peak, basis.precision.value_or(Precision::fp32)) : "not known",
      basis.devices, basis.devices == 1 ? "" : "s",
      basis.peak_source.empty() ? "" : fmt::format(" ({})", basis.peak_source));
}

class TensorBoardSink : public Sink {
 public:
  explicit TensorBoardSink(std::string folder) : folder_(std::move(folder)) {}
  std::chrono::nanoseconds pace() const override { return std::chrono::seconds(1); }
  std::string name() const override { return fmt::format("TensorBoard in {}", folder_); }

  Result<void> open() override {
    headed_ = false;
    described_.clear();
    path_.clear();
    return {};
  }

  Result<void> write(std::span<const StepReport> reports) override {
    if (reports.empty()) return {};
    // The file was deleted or renamed meanwhile. A new one begins like every event file.
    if (!path_.empty() && file_.moved()) MFU_TRY(open());
    if (path_.empty()) MFU_TRY(create(reports[0].time));
    std::string records;
    std::set<std::string_view> described = described_;
    if (!headed_) {
      std::string version = event_start(reports[0].time);
      append_bytes(version, 3, "brain.Event:2");
      append_record(records, version);
    }
    for (const StepReport& report : reports) append_record(records, event_of(report, described));
    MFU_TRY(file_.append(records));
    headed_ = true;
    described_ = std::move(described);
    return {};
  }

  Result<void> close() override {
    file_.close();
    return {};
  }

 private:
  // TensorBoard looks for events.out.tfevents.SECONDS.HOST.PID.N and sorts by that name. The ending
  // says who wrote it.
  Result<void> create(std::chrono::nanoseconds time) {
    static std::atomic<unsigned> number = 0;
    char host[65] = "localhost";
    ::gethostname(host, sizeof host - 1);
    std::string path = fmt::format("{}/events.out.tfevents.{}.{}.{}.{}.mfu", folder_,
                                   std::chrono::duration_cast<std::chrono::seconds>(time).count(),
                                   host, ::getpid(), number++);
    file_ = MFU_TRY(AppendFile::open(path, false));
    path_ = path;
    return {};
  }

  static std::string event_of(const StepReport& report, std::set<std::string_view>& described) {
    std::string summary;
    for (const StepMetric& scalar : scalars_of(report)) {
      bool first = scalar.name.find("mfu") != std::string_view::npos && report.source &&
                   described.insert(scalar.name).second;
      append_bytes(summary, 1, summary_value(scalar, first ? description_of(report) : ""));
    }
    std::string event = event_start(report.time);
    append_key(event, 2, Wire::varint);
    append_varint(event, report.step);
    append_bytes(event, 5, summary);
    return event;
  }

  std::string folder_, path_;
  AppendFile file_;
  bool headed_ = false;
  std::set<std::string_view> described_;  // tags whose description was written
};

}  // namespace

std::unique_ptr<Sink> make_tensorboard_sink(std::string folder) {
  return std::make_unique<TensorBoardSink>(std::move(folder));
}

}  // namespace mfu
