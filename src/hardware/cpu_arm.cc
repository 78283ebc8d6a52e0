#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/text.h"
#include "hardware/cpu.h"

namespace mfu {
namespace {

struct Core {
  unsigned implementer, part;
  const char* name;
};

// MIDR_EL1's implementer and part number, as Linux has them in arch/arm64/include/asm/cputype.h.
constexpr Core kCores[] = {
    {0x41, 0xd03, "Cortex-A53"},    {0x41, 0xd05, "Cortex-A55"},
    {0x41, 0xd07, "Cortex-A57"},    {0x41, 0xd08, "Cortex-A72"},
    {0x41, 0xd09, "Cortex-A73"},    {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},    {0x41, 0xd0c, "Neoverse N1"},
    {0x41, 0xd40, "Neoverse V1"},   {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd42, "Cortex-A78AE"},  {0x41, 0xd44, "Cortex-X1"},
    {0x41, 0xd46, "Cortex-A510"},   {0x41, 0xd47, "Cortex-A710"},
    {0x41, 0xd48, "Cortex-X2"},     {0x41, 0xd49, "Neoverse N2"},
    {0x41, 0xd4a, "Neoverse E1"},   {0x41, 0xd4f, "Neoverse V2"},
    {0x41, 0xd81, "Cortex-A720"},   {0x41, 0xd82, "Cortex-X4"},
    {0x41, 0xd83, "Neoverse V3AE"}, {0x41, 0xd84, "Neoverse V3"},
    {0x41, 0xd8e, "Neoverse N3"},   {0x43, 0x0af, "ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"}, {0x48, 0xd01, "Kunpeng 920"},
    {0x4e, 0x004, "NVIDIA Carmel"}, {0x6d, 0xd49, "Azure Cobalt 100"},
    {0xc0, 0xac3, "AmpereOne"},     {0xc0, 0xac4, "AmpereOne A"},
};

// "CPU part\t: 0xd40" → 0xd40.
std::optional<unsigned> number_after(std::string_view line, std::string_view key) {
  if (!line.starts_with(key)) return std::nullopt;
  std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view text = trim(line.substr(colon + 1));
  if (text.starts_with("0x")) text.remove_prefix(2);
  unsigned value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string core_name(unsigned implementer, unsigned part) {
  for (const Core& core : kCores) {
    if (core.implementer == implementer && core.part == part) return core.name;
  }
  return fmt::format("AArch64 processor 0x{:02x}/0x{:03x}", implementer, part);
}

// Which maker puts Arm's own cores into which chip.
std::string chip_of(const std::string& core, std::string_view maker) {
  if (maker.find("Amazon") != std::string_view::npos) {
    if (core == "Neoverse N1") return "AWS Graviton2";
    if (core == "Neoverse V1") return "AWS Graviton3";
    if (core == "Neoverse V2") return "AWS Graviton4";
    if (core == "Neoverse V3") return "AWS Graviton5";
  }
  // NVIDIA's number among makers (JEP106), or its name.
  bool nvidia = maker.find("jep106:036b") != std::string_view::npos ||
                maker.find("NVIDIA") != std::string_view::npos;
  if (nvidia && core == "Neoverse V2") return "NVIDIA Grace";
  return "";
}

}  // namespace

std::string arm_brand(std::string_view cpuinfo, std::string_view maker) {
  std::vector<std::string> names;  // a machine may have cores of two kinds
  std::string model;
  unsigned implementer = 0;
  for (std::string_view line : split(cpuinfo, '\n')) {
    if (line.starts_with("model name") && line.find(':') != std::string_view::npos) {
      model = printable(trim(line.substr(line.find(':') + 1)));
    }
    if (auto number = number_after(line, "CPU implementer")) implementer = *number;
    if (auto part = number_after(line, "CPU part")) {
      std::string name = core_name(implementer, *part);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  if (names.empty()) return model.empty() ? "AArch64 processor" : model;
  std::string chip = names.size() == 1 ? chip_of(names[0], maker) : "";
  if (!chip.empty()) return fmt::format("{} ({})", chip, names[0]);
  return fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace mfu
