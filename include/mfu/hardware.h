// What hardware could do: its peak rates by data type, from one catalogue in which every row names
// its source. A device is found by the name that its driver prints. An unknown name is an error:
// nothing is guessed.
//
//   const mfu::Catalog& catalog = mfu::Catalog::builtin();
//   mfu::Device device = MFU_TRY(mfu::find_device(catalog, "NVIDIA H100 80GB HBM3"));
//   const mfu::Peak* peak = device.peak(mfu::Precision::bf16);  // null if it has no such peak
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

// The data type in which the matrix multiplies run.
enum class Precision { fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8, int4 };

std::string_view name_of(Precision precision);
std::optional<Precision> parse_precision(std::string_view name);
const std::vector<Precision>& all_precisions();

// How sure a figure is. `read`: it stands in its source. `derived`: it is computed from figures
// that do. `inferred`: it is that of a device with the same silicon. `unverified`: somebody
// remembers it, but no source was found.
enum class Confidence { read, derived, inferred, unverified };

std::string_view name_of(Confidence confidence);

struct Peak {
  Precision precision = Precision::fp32;
  bool sparse = false;     // with structured sparsity, which a dense matmul cannot reach
  bool matrix = true;      // of matrix units (tensor core, MFMA, MXU); false: of vector units
  std::string accumulate;  // "fp32", "fp16", "int32"…; empty if not stated
  FlopRate rate;
  std::string source;
  Confidence confidence = Confidence::read;
  std::string note;  // where sources disagree
};

// One device as its driver counts devices. That may be a whole GPU, or a GCD, a TPU core or a MIG
// slice.
struct Device {
  std::string name;  // our own name for it, unique in the catalogue
  std::string vendor;
  std::string kind;  // gpu, tpu, npu, cpu
  std::string unit;  // gpu, gcd, core, chip, tile, package, slice, socket share
  std::string architecture;
  std::vector<std::string> aliases;  // names that drivers and frameworks print
  std::optional<Bytes> memory;
  std::optional<ByteRate> bandwidth;
  std::optional<std::uint32_t> units;  // SMs, CUs or cores; a slice has some of them
  std::optional<double> clock_hz;      // the clock for which the peak was published
  std::vector<Peak> peaks;
  std::vector<Note> notes;

  // The peak that counts for a matmul of this type: the one with the wider accumulation, which
  // frameworks use. Dense unless `sparse`. Null if the device has none.
  const Peak* peak(Precision precision, bool sparse = false) const;
};

// A part of a device that its vendor offers as a device: a MIG profile, an AMD compute partition.
struct Partition {
  std::string device;   // the whole device's name in the catalogue
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

  // Reads a user's devices, in the columns of the built-in catalogue (docs/formats/catalog.md).
  // Fails with `malformed`, naming `path`, line and column; open() also with `io`.
  static Result<Catalog> parse(std::string_view csv, std::string_view path);
  static Result<Catalog> open(const std::string& path);

  // Both catalogues together. If both know a name or alias, the device of `preferred` is meant.
  Catalog with(const Catalog& preferred) const;

  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<Partition>& partitions() const { return partitions_; }

 private:
  friend struct CatalogBuilder;
  std::vector<Device> devices_;
  std::vector<Partition> partitions_;
};

// Every device that the name matches: one if it is a name that a driver prints, several if it names
// a family ("h100"), none if nothing matches. Only whole words match: H100 does not match GH100,
// nor H20 H200.
std::vector<Device> match_devices(const Catalog& catalog, std::string_view name);

// The one device of that name. Fails with `not_found` and the nearest names, or with
// `invalid_argument` and the candidates if the name matches several.
Result<Device> find_device(const Catalog& catalog, std::string_view name);

// What a framework tells about a device. What is not known is left empty.
struct DeviceTraits {
  std::string name;                      // as the framework prints it
  std::string architecture{};            // "gfx90a:sramecc+:xnack-", "sm_90"
  std::optional<std::uint32_t> units{};  // multiprocessors or compute units it has at the moment
  std::optional<Bytes> memory{};
};

// The device with these traits. If the name alone says nothing ("AMD Radeon Graphics") or matches
// several devices, architecture, units and memory decide. If it has fewer units than the whole
// device, the answer is that partition. Fails as find_device() does.
Result<Device> identify_device(const Catalog& catalog, const DeviceTraits& traits);

// The part of a device that has only `units` of its units (SMs, CUs), with peaks in proportion.
// Contract: device.units is known and not less than `units`.
Device slice_of(const Device& device, std::string_view name, std::uint32_t units);

}  // namespace mfu
