#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "base/csv.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "hardware/catalog_data.h"
#include "hardware/names.h"
#include "mfu/hardware.h"

namespace mfu {

namespace {

constexpr std::array<std::string_view, 19> kDeviceColumns = {"device",
                                                             "vendor",
                                                             "kind",
                                                             "unit",
                                                             "architecture",
                                                             "aliases",
                                                             "memory_gb",
                                                             "bandwidth_gb_per_s",
                                                             "units",
                                                             "clock_mhz",
                                                             "dtype",
                                                             "path",
                                                             "accumulate",
                                                             "dense_tflop_per_s",
                                                             "sparse_tflop_per_s",
                                                             "flop_per_unit_clock",
                                                             "source",
                                                             "confidence",
                                                             "note"};
constexpr std::array<std::string_view, 8> kPartitionColumns = {
    "device", "profile",    "units", "memory_gb", "bandwidth_gb_per_s",
    "source", "confidence", "note"};

// A row with its cells by column name. Errors name the file, the line and the column.
class Row {
 public:
  Row(const CsvTable& table, const CsvRow& row, std::string_view path)
      : table_(table), row_(row), path_(path) {}

  std::string_view cell(std::string_view column) const {
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      const std::string& name = table_.columns[i];
      if (name.size() == column.size() && name == column) return row_.cells[i];
    }
    return {};
  }

  Failure wrong(std::string_view column, std::string_view expected) const {
    return fail(ErrorCode::malformed,
                fmt::format("{}:{}: column {}: '{}' where {} was expected", path_, row_.line,
                            column, printable(cell(column), 40), expected));
  }

  // A positive number in the column's unit, times `scale`. None if the cell is empty.
  Result<std::optional<double>> number(std::string_view column, int scale_exponent) const {
    std::string_view text = cell(column);
    if (text.empty()) return std::optional<double>();
    // The decimal text is scaled, not the double, so that 989.4 tera is exactly 989400000000000.
    auto value = parse_number(text);
    if (value) value = parse_number(fmt::format("{}e{}", text, scale_exponent));
    if (!value && parse_number(text)) value = *parse_number(text) * std::pow(10.0, scale_exponent);
    if (!value || *value <= 0) return wrong(column, "a number above 0");
    if (*value > 1e24) return wrong(column, "a number that hardware can have");
    return value;
  }

 private:
  const CsvTable& table_;
  const CsvRow& row_;
  std::string_view path_;
};

template <std::size_t N>
Result<void> check_columns(const CsvTable& table, const std::array<std::string_view, N>& known,
                           std::initializer_list<std::string_view> needed, std::string_view path) {
  for (const std::string& column : table.columns) {
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    std::vector<std::string> near =
        closest(column, std::vector<std::string>(known.begin(), known.end()), 1);
    return fail(ErrorCode::malformed,
                fmt::format("{}:1: unknown column '{}'{}", path, printable(column, 40),
                            near.empty() ? fmt::format("; known: {}", fmt::join(known, ","))
                                         : fmt::format("; did you mean '{}'?", near[0])));
  }
  for (std::string_view column : needed) {
    if (std::find(table.columns.begin(), table.columns.end(), column) == table.columns.end()) {
      return fail(ErrorCode::malformed,
                  fmt::format("{}:1: the column '{}' is missing", path, column));
    }
  }
  return {};
}

Result<Confidence> confidence_of(const Row& row) {
  std::string_view text = row.cell("confidence");
  if (text.empty()) return Confidence::unverified;
  for (Confidence known :
       {Confidence::read, Confidence::derived, Confidence::inferred, Confidence::unverified}) {
    if (text == name_of(known)) return known;
  }
  return row.wrong("confidence", "read, derived, inferred or unverified");
}

std::optional<Bytes> gigabytes(std::optional<double> bytes) {
  if (!bytes || *bytes > 1e18) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*bytes)};
}

std::optional<ByteRate> byte_rate(std::optional<double> per_s) {
  return per_s ? std::optional(ByteRate{*per_s}) : std::nullopt;
}

}  // namespace

struct CatalogBuilder {
  Catalog catalog;

  Result<void> add_devices(std::string_view csv, std::string_view path) {
    CsvTable table = MFU_TRY(parse_csv(csv, path));
    MFU_TRY(check_columns(table, kDeviceColumns, {"device", "dtype", "dense_tflop_per_s"}, path));
    for (const CsvRow& cells : table.rows) {
      Row row(table, cells, path);
      Device& device = MFU_TRY(device_of(row)).get();
      MFU_TRY(add_peaks(row, device));
    }
    return {};
  }

  Result<void> add_partitions(std::string_view csv, std::string_view path) {
    CsvTable table = MFU_TRY(parse_csv(csv, path));
    MFU_TRY(check_columns(table, kPartitionColumns, {"device", "profile", "units"}, path));
    for (const CsvRow& cells : table.rows) {
      Row row(table, cells, path);
      Partition partition;
      partition.device = row.cell("device");
      partition.profile = row.cell("profile");
      auto units = MFU_TRY(row.number("units", 0));
      if (!units || *units > 1e6) return row.wrong("units", "a count of units");
      partition.units = static_cast<std::uint32_t>(*units);
      partition.memory = gigabytes(MFU_TRY(row.number("memory_gb", 9)));
      partition.bandwidth = byte_rate(MFU_TRY(row.number("bandwidth_gb_per_s", 9)));
      partition.source = row.cell("source");
      partition.confidence = MFU_TRY(confidence_of(row));
      catalog.partitions_.push_back(std::move(partition));
    }
    return {};
  }

 private:
  // The device that a row belongs to. Facts about the device itself are in its first row.
  Result<std::reference_wrapper<Device>> device_of(const Row& row) {
    std::string_view name = row.cell("device");
    if (name.empty()) return row.wrong("device", "a device's name");
    if (auto known = positions_.find(std::string(name)); known != positions_.end()) {
      return std::ref(catalog.devices_[known->second]);
    }
    Device device;
    device.name = name;
    device.vendor = row.cell("vendor");
    device.kind = row.cell("kind").empty() ? "gpu" : row.cell("kind");
    device.unit = row.cell("unit").empty() ? device.kind : std::string(row.cell("unit"));
    device.architecture = row.cell("architecture");
    for (std::string_view alias : split(row.cell("aliases"), '|')) {
      if (!trim(alias).empty()) device.aliases.emplace_back(trim(alias));
    }
    device.memory = gigabytes(MFU_TRY(row.number("memory_gb", 9)));
    device.bandwidth = byte_rate(MFU_TRY(row.number("bandwidth_gb_per_s", 9)));
    device.clock_hz = MFU_TRY(row.number("clock_mhz", 6));
    auto units = MFU_TRY(row.number("units", 0));
    if (units && *units > 1e6) return row.wrong("units", "a count of units");
    if (units) device.units = static_cast<std::uint32_t>(*units);
    MFU_TRY(claim_names(row, device));
    positions_[device.name] = catalog.devices_.size();
    catalog.devices_.push_back(std::move(device));
    return std::ref(catalog.devices_.back());
  }

  // A name may belong to one device only.
  Result<void> claim_names(const Row& row, const Device& device) {
    for (const std::string& name : names_of(device)) {
      auto [owner, fresh] = owners_.emplace(name, device.name);
      if (fresh) continue;
      return row.wrong("aliases",
                       fmt::format("names of this device alone ('{}' is also a name of {})", name,
                                   owner->second));
    }
    return {};
  }

  Result<void> add_peaks(const Row& row, Device& device) {
    auto precision = parse_precision(row.cell("dtype"));
    if (!precision) {
      return row.wrong("dtype", "one of fp64 fp32 tf32 fp16 bf16 fp8 fp6 fp4 int8 int4");
    }
    Peak peak;
    peak.precision = *precision;
    std::string_view path = row.cell("path");
    if (!path.empty() && path != "matrix" && path != "vector") {
      return row.wrong("path", "matrix or vector");
    }
    peak.matrix = path != "vector";
    peak.accumulate = row.cell("accumulate");
    peak.source = row.cell("source");
    peak.confidence = MFU_TRY(confidence_of(row));
    peak.note = row.cell("note");
    for (const Peak& known : device.peaks) {
      if (known.precision == peak.precision && known.matrix == peak.matrix &&
          known.accumulate == peak.accumulate) {
        return row.wrong("dtype",
                         "a type that this device does not have yet (dtype, path and "
                         "accumulate together are the key)");
      }
    }
    auto dense = MFU_TRY(row.number("dense_tflop_per_s", 12));
    auto sparse = MFU_TRY(row.number("sparse_tflop_per_s", 12));
    if (!dense) return row.wrong("dense_tflop_per_s", "the dense rate in TFLOP/s");
    peak.rate = {*dense};
    device.peaks.push_back(peak);
    if (sparse) {
      peak.sparse = true;
      peak.rate = {*sparse};
      device.peaks.push_back(peak);
    }
    return {};
  }

  std::unordered_map<std::string, std::size_t> positions_;  // of devices, by name
  std::unordered_map<std::string, std::string> owners_;     // devices, by every folded name
};

const Catalog& Catalog::builtin() {
  // Never destroyed, because a holder of a reference may outlive main.
  static const Catalog* const kCatalog = [] {
    CatalogBuilder builder;
    Result<void> devices = builder.add_devices(catalog_csv(), "catalog.csv");
    Result<void> partitions = builder.add_partitions(partitions_csv(), "partitions.csv");
    MFU_ASSERT(devices.has_value() && partitions.has_value());
    return new Catalog(std::move(builder.catalog));
  }();
  return *kCatalog;
}

Result<Catalog> Catalog::parse(std::string_view csv, std::string_view path) {
  CatalogBuilder builder;
  MFU_TRY(builder.add_devices(csv, path));
  return builder.catalog;
}

Result<Catalog> Catalog::open(const std::string& path) {
  std::string csv = MFU_TRY(read_named_file(path, 16u << 20));
  return parse(csv, path);
}

Catalog Catalog::with(const Catalog& preferred) const {
  Catalog merged = preferred;
  for (const Device& device : devices_) {
    bool replaced = std::any_of(preferred.devices_.begin(), preferred.devices_.end(),
                                [&](const Device& other) { return share_a_name(device, other); });
    if (!replaced) merged.devices_.push_back(device);
  }
  merged.partitions_.insert(merged.partitions_.end(), partitions_.begin(), partitions_.end());
  return merged;
}

}  // namespace mfu
