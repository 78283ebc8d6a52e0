#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/file.h"
#include "base/text.h"
#include "hardware/cpu.h"

namespace mfu {

namespace {

// Reads "max 100000" (no quota) or "150000 100000" (1.5 cores).
double quota_cores(std::string_view quota, std::string_view period) {
  auto granted = parse_number(trim(quota));
  auto every = parse_number(trim(period));
  return granted && every && *granted > 0 && *every > 0 ? *granted / *every : 0;
}

double limit_at(const std::string& folder, bool unified) {
  if (unified) {
    Result<std::string> text = read_file(folder + "/cpu.max", 4096);
    if (!text.has_value()) return 0;
    std::vector<std::string_view> parts = split(trim(*text), ' ');
    return parts.size() == 2 ? quota_cores(parts[0], parts[1]) : 0;
  }
  Result<std::string> quota = read_file(folder + "/cpu.cfs_quota_us", 4096);
  Result<std::string> period = read_file(folder + "/cpu.cfs_period_us", 4096);
  return quota.has_value() && period.has_value() ? quota_cores(*quota, *period) : 0;
}

double tightest(double a, double b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return {nullptr, hwloc_topology_destroy};
  Topology owned(topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) owned.reset();
  return owned;
}

std::size_t cache_bytes(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  for (auto type : {HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    std::size_t bytes = 0;
    for (hwloc_obj_t cache = nullptr;
         (cache = hwloc_get_next_obj_by_type(topology, type, cache));) {
      if (hwloc_bitmap_intersects(cache->cpuset, allowed)) bytes += cache->attr->cache.size;
    }
    if (bytes > 0) return bytes;
  }
  return 0;
}

}  // namespace

double cgroup_core_limit(std::string_view proc_cgroup, const std::string& root) {
  double limit = 0;
  for (std::string_view line : split(proc_cgroup, '\n')) {
    std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() != 3) continue;
    bool unified = fields[1].empty();
    std::vector<std::string_view> controllers = split(fields[1], ',');
    if (!unified && std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end())
      continue;
    std::string base = unified ? root : root + "/" + std::string(fields[1]);
    std::string path(fields[2] == "/" ? "" : fields[2]);
    while (true) {
      limit = tightest(limit, limit_at(base + path, unified));
      if (path.empty()) break;
      path.resize(std::min(path.rfind('/'), path.size()));
    }
  }
  return limit;
}

double CpuShare::cores() const {
  double count = static_cast<double>(core_units.size());
  return core_limit == 0 ? count : std::min(count, core_limit);
}

CpuShare cpu_share(const std::vector<std::uint32_t>& cpus) {
  CpuShare share;
  Topology topology = load_topology();
  std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(),
                                                                        hwloc_bitmap_free);
  if (topology != nullptr) {
    if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
      hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
    }
    if (!cpus.empty()) {
      hwloc_bitmap_zero(allowed.get());
      for (std::uint32_t cpu : cpus) hwloc_bitmap_set(allowed.get(), cpu);
      hwloc_bitmap_and(allowed.get(), allowed.get(),
                       hwloc_topology_get_allowed_cpuset(topology.get()));
    }
    for (hwloc_obj_t core = nullptr;
         (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core));) {
      hwloc_bitmap_t usable = hwloc_bitmap_alloc();
      hwloc_bitmap_and(usable, core->cpuset, allowed.get());
      int unit = hwloc_bitmap_first(usable);
      if (unit >= 0) share.core_units.push_back(static_cast<unsigned>(unit));
      hwloc_bitmap_free(usable);
    }
    share.last_cache_bytes = cache_bytes(topology.get(), allowed.get());
  }
  if (share.core_units.empty()) share.core_units.push_back(0);
  Result<std::string> groups = read_file("/proc/self/cgroup", 1u << 16);
  if (groups.has_value()) share.core_limit = cgroup_core_limit(*groups, "/sys/fs/cgroup");
  share.memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return share;
}

}  // namespace mfu
