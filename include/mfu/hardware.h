// What hardware could do: peaks by data type, from one catalogue with a source behind every row. A
// name resolves as drivers print it, or not at all; nothing is guessed.
//
//   const mfu::Catalog& catalog = mfu::Catalog::builtin();
//   mfu::Device device = MFU_TRY(mfu::find_device(catalog, "NVIDIA H100 80GB HBM3"));
//   const mfu::Peak* peak = device.peak(mfu::Precision::bf16);  // null: it has no such unit
//   if (peak) std::printf("%g, from %s\n", peak->rate.per_s, peak->source.c_str());  // 9.894e+14
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mfu/result.h"
#include "mfu/units.h"

namespace mfu {

// The type that the matrix multiplies run in.
enum class Precision { fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8, int4 };

std::string_view name_of(Precision precision);
std::optional<Precision> parse_precision(std::string_view name);
const std::vector<Precision>& all_precisions();

// How sure a figure is: read in its source; computed from figures that were; taken over from a
// device with the same silicon; or remembered by somebody and found nowhere.
enum class Confidence { read, derived, inferred, unverified };

std::string_view name_of(Confidence confidence);

struct Peak {
  Precision precision = Precision::fp32;
  bool sparse = false;     // structured sparsity; a dense matmul cannot reach it
  bool matrix = true;      // tensor core, MFMA, MXU; false: the plain vector units
  std::string accumulate;  // "fp32", "fp16", "int32"…; empty: not stated
  FlopRate rate;
  std::string source;
  Confidence confidence = Confidence::read;
  std::string note;  // what sources disagree on
};

// One device as its driver counts devices: a GCD, a TPU core, a MIG slice where those are what it
// counts.
struct Device {
  std::string name;  // ours, unique
  std::string vendor;
  std::string kind;  // gpu, tpu, npu, cpu
  std::string unit;  // gpu, gcd, core, chip, tile, package, slice, socket share
  std::string architecture;
  std::vector<std::string> aliases;  // as drivers and frameworks print it
  std::optional<Bytes> memory;
  std::optional<ByteRate> bandwidth;
  std::optional<std::uint32_t> units;  // SMs, CUs, cores: what a slice is a share of
  std::optional<double> clock_hz;      // behind the published peak
  std::vector<Peak> peaks;
  std::vector<std::string> notes;

  // The dense peak a matmul of that type can reach with the accumulation frameworks use (the wider
  // one); null where the device has none.
  const Peak* peak(Precision precision, bool sparse = false) const;
};

// A published partition of a device: a MIG profile, an AMD compute partition.
struct Partition {
  std::string device;   // its name in the catalogue
  std::string profile;  // "1g.10gb", "CPX"
  std::uint32_t units = 0;
  std::optional<Bytes> memory;
  std::optional<ByteRate> bandwidth;
  std::string source;
  Confidence confidence = Confidence::read;
};

class Catalog {
 public:
  static const Catalog& builtin();

  // A user's devices, in the columns of the built-in catalogue (docs/formats/catalog.md).
  // `malformed` with `path`, line and column name.
  static Result<Catalog> parse(std::string_view csv, std::string_view path);
  static Result<Catalog> open(const std::string& path);

  // This catalogue with the other's devices put before it: the same name or alias means the
  // other's.
  Catalog with(const Catalog& preferred) const;

  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Partition>& partitions() const { return partitions_; }

 private:
  friend struct CatalogBuilder;
  std::vector<Device> devices_;
  std::vector<Partition> partitions_;
};

// Every device that the name fits: one where it is a name some driver prints, several where it
// names a family
// ("h100"), none where nothing fits. Words are compared whole: H100 is not in GH100, H20 not in
// H200.
std::vector<Device> match_devices(const Catalog& catalog, std::string_view name);

// The one device of that name; `not_found` with the nearest names, or `invalid_argument` with the
// candidates where it fits several.
Result<Device> find_device(const Catalog& catalog, std::string_view name);

// What a device says of itself, as far as it is known.
struct DeviceTraits {
  std::string name;                      // as the framework prints it
  std::string architecture{};            // "gfx90a:sramecc+:xnack-", "sm_90"
  std::optional<std::uint32_t> units{};  // multiprocessors or compute units that it has now
  std::optional<Bytes> memory{};
};

// The device of that name. A name that says nothing ("AMD Radeon Graphics") or names several is
// completed by architecture, units and memory; fewer units than the whole device's are a partition
// of it. Failures are find_device()'s.
Result<Device> identify_device(const Catalog& catalog, const DeviceTraits& traits);

// The share of a device that has only so many of its units (SMs, CUs): peaks in proportion.
// Contract: device.units is known and not less than `units`.
Device slice_of(const Device& device, std::string_view name, std::uint32_t units);

}  // namespace mfu
