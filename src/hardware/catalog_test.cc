#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "base/csv.h"
#include "base/text.h"
#include "hardware/catalog_data.h"
#include "mfu/hardware.h"

namespace mfu {
namespace {

// The catalogue's own lines, for laws about columns that parsing drops.
std::vector<std::map<std::string, std::string>> rows_of(std::string_view csv) {
  CsvTable table = parse_csv(csv, "catalog.csv").value();
  std::vector<std::map<std::string, std::string>> rows;
  for (const CsvRow& cells : table.rows) {
    std::map<std::string, std::string>& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.cells.size(); ++i) row[table.columns[i]] = cells.cells[i];
  }
  return rows;
}

bool excused(const Peak& peak) {
  return peak.note.starts_with("LAW:");
}

TEST(Catalog, holds_more_than_110_devices_each_row_with_a_source) {
  const Catalog& catalog = Catalog::builtin();
  EXPECT_GT(catalog.devices().size(), 110u);
  for (const Device& device : catalog.devices()) {
    EXPECT_FALSE(device.peaks.empty()) << device.name;
    EXPECT_FALSE(device.vendor.empty()) << device.name;
    for (const Peak& peak : device.peaks) EXPECT_FALSE(peak.source.empty()) << device.name;
  }
}

TEST(Catalog, sparse_is_twice_dense) {
  for (const Device& device : Catalog::builtin().devices()) {
    for (std::size_t i = 1; i < device.peaks.size(); ++i) {
      const Peak& sparse = device.peaks[i];
      if (!sparse.sparse || excused(sparse)) continue;
      EXPECT_NEAR(sparse.rate.per_s / device.peaks[i - 1].rate.per_s, 2, 0.03)
          << device.name << " " << name_of(sparse.precision);
    }
  }
}

TEST(Catalog, a_narrower_type_is_not_slower) {
  const std::pair<Precision, Precision> kOrder[] = {{Precision::fp8, Precision::bf16},
                                                    {Precision::int8, Precision::bf16},
                                                    {Precision::bf16, Precision::tf32},
                                                    {Precision::fp16, Precision::tf32},
                                                    {Precision::fp4, Precision::fp8}};
  for (const Device& device : Catalog::builtin().devices()) {
    for (auto [narrow, wide] : kOrder) {
      const Peak* faster = device.peak(narrow);
      const Peak* slower = device.peak(wide);
      if (faster == nullptr || slower == nullptr || !faster->matrix || !slower->matrix) continue;
      if (excused(*faster) || excused(*slower)) continue;
      EXPECT_GE(faster->rate.per_s, 0.99 * slower->rate.per_s)
          << device.name << " " << name_of(narrow) << " against " << name_of(wide);
    }
  }
}

TEST(Catalog, units_times_clock_times_flop_a_clock_is_the_peak) {
  std::map<std::string, std::pair<double, double>> chips;
  int checked = 0;
  for (const auto& row : rows_of(catalog_csv())) {
    auto& [units, clock_mhz] = chips[row.at("device")];
    if (auto value = parse_number(row.at("units"))) units = *value;
    if (auto value = parse_number(row.at("clock_mhz"))) clock_mhz = *value;
    auto per_clock = parse_number(row.at("flop_per_unit_clock"));
    if (!per_clock || units == 0 || clock_mhz == 0) continue;
    double dense = parse_number(row.at("dense_tflop_per_s")).value();
    EXPECT_NEAR(units * clock_mhz * *per_clock / 1e6 / dense, 1, 0.015)
        << row.at("device") << " " << row.at("dtype") << " " << row.at("path");
    ++checked;
  }
  EXPECT_GT(checked, 400);
}

TEST(Catalog, partitions_are_shares_of_devices_that_are_there) {
  std::set<std::string> names;
  const Catalog& catalog = Catalog::builtin();
  for (const Partition& partition : catalog.partitions()) {
    auto device = std::find_if(catalog.devices().begin(), catalog.devices().end(),
                               [&](const Device& each) { return each.name == partition.device; });
    ASSERT_NE(device, catalog.devices().end()) << partition.device;
    ASSERT_TRUE(device->units.has_value()) << partition.device;
    EXPECT_LE(partition.units, *device->units) << partition.device << " " << partition.profile;
    EXPECT_TRUE(names.insert(partition.device + " " + partition.profile).second);
  }
}

TEST(Catalog, the_h100_has_what_its_datasheet_says) {
  Device device = find_device(Catalog::builtin(), "NVIDIA H100 80GB HBM3").value();
  EXPECT_EQ(device.peak(Precision::bf16)->rate.per_s, 989.4e12);
  EXPECT_EQ(device.peak(Precision::bf16, true)->rate.per_s, 1978.9e12);
  EXPECT_EQ(device.peak(Precision::fp6), nullptr);
  EXPECT_EQ(device.memory->count, 80'000'000'000u);
}

TEST(Catalog, frameworks_accumulate_in_fp32_so_that_rate_is_the_peak_of_a_geforce) {
  Device device = find_device(Catalog::builtin(), "NVIDIA GeForce RTX 4090").value();
  EXPECT_EQ(device.peak(Precision::fp16)->accumulate, "fp32");
  EXPECT_NEAR(device.peak(Precision::fp16)->rate.per_s, 165.2e12, 0.1e12);
}

// The reference names a form (SXM, PCIe) without a memory size, so every device that fits must
// agree.
TEST(Catalog, agrees_with_the_published_table_or_says_why_not) {
  std::ifstream file(MFU_SHARED_DIR "/oracles/device_peaks.csv");
  if (!file) return;  // the reference tables are not part of the repository
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::map<std::string, std::string> kReasons = {
      {"MI250X", "the table counts the package, drivers count the GCD"},
      {"MI250", "the table counts the package, drivers count the GCD"},
      {"TPU v7x",
       "the table counts the chip, JAX counts its two cores; no fp16 unit is documented"},
      {"B200 SXM fp32", "75 in NVIDIA's HGX B200 table; 80 is GB200's"},
      {"B300 SXM fp32", "75 in NVIDIA's HGX B300 table; 80 is GB300's"},
      {"TPU v6e fp16", "no fp16 unit is documented"},
      {"TPU v6e fp8", "fp8 is not native: computed in bf16"}};
  for (const auto& row : rows_of(text)) {
    std::vector<Device> devices = match_devices(Catalog::builtin(), row.at("device"));
    EXPECT_FALSE(devices.empty()) << row.at("device");
    for (const char* type : {"fp32", "tf32", "fp16", "bf16", "fp8"}) {
      auto published = parse_number(row.at(std::string(type) + "_tflops"));
      bool reason =
          kReasons.contains(row.at("device")) || kReasons.contains(row.at("device") + " " + type);
      if (!published || reason) continue;
      for (const Device& device : devices) {
        if (device.unit == "core" || device.unit == "slice") continue;
        // The table gives the vector rate of fp32, which is not always the rate of a matmul.
        bool agrees = false;
        for (const Peak& peak : device.peaks) {
          agrees = agrees || (name_of(peak.precision) == type && !peak.sparse &&
                              std::fabs(peak.rate.per_s / 1e12 / *published - 1) < 0.0075);
        }
        EXPECT_TRUE(agrees) << row.at("device") << " " << type << " " << *published << ": "
                            << device.name;
      }
    }
  }
}

TEST(UserCatalog, adds_devices_and_its_word_counts_before_ours) {
  Catalog mine =
      Catalog::parse(
          "device,aliases,dtype,dense_tflop_per_s\n"
          "Z9,ACME Z9,bf16,123.4\nZ9,,fp8,246.8\nMy H100,NVIDIA H100 80GB HBM3,bf16,900\n",
          "mine.csv")
          .value();
  Catalog both = Catalog::builtin().with(mine);
  EXPECT_EQ(find_device(both, "acme z9")->peak(Precision::fp8)->rate.per_s, 246.8e12);
  EXPECT_EQ(find_device(both, "NVIDIA H100 80GB HBM3")->name, "My H100");
  EXPECT_EQ(find_device(both, "acme z9")->peak(Precision::bf16)->confidence,
            Confidence::unverified);
}

TEST(UserCatalog, a_broken_one_says_file_line_column_and_what_was_expected) {
  auto message = [](const std::string& rows) {
    return Catalog::parse("device,aliases,dtype,dense_tflop_per_s,confidence\n" + rows, "mine.csv")
        .error()
        .message;
  };
  EXPECT_EQ(message("Z9,,bf61,1,\n"),
            "mine.csv:2: column dtype: 'bf61' where one of fp64 fp32 tf32 fp16 bf16 fp8 fp6 fp4 "
            "int8 int4 was expected");
  EXPECT_EQ(message("Z9,,bf16,fast,\n"),
            "mine.csv:2: column dense_tflop_per_s: 'fast' where a number above 0 was expected");
  EXPECT_NE(message("Z9,,bf16,1e300,\n").find("that hardware can have"), std::string::npos);
  EXPECT_NE(message("Z9,,bf16,-4,\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(message("Z9,,bf16,,\n").find("the dense rate in TFLOP/s"), std::string::npos);
  EXPECT_NE(message("Z9,,bf16,1,sure\n").find("read, derived, inferred or unverified"),
            std::string::npos);
  EXPECT_NE(message("Z9,,bf16,1,\nZ9,,bf16,2,\n").find("mine.csv:3: column dtype"),
            std::string::npos);
  EXPECT_NE(message("Z9,X,bf16,1,\nZ8,X,bf16,2,\n").find("also a name of Z9"), std::string::npos);
  EXPECT_NE(Catalog::parse("device,dtyp\n", "m.csv").error().message.find("did you mean 'dtype'?"),
            std::string::npos);
  EXPECT_EQ(Catalog::parse("device,dtype\n", "m.csv").error().message,
            "m.csv:1: the column 'dense_tflop_per_s' is missing");
}

}  // namespace
}  // namespace mfu
