#include "record/recorder.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>

#include "record/region_file.h"
#include "record/region_sum.h"
#include "record/spin_lock.h"

namespace mfu {

namespace {

constexpr unsigned kOtherOperator = kRegionOperators - 1;
constexpr unsigned kOtherType = kRegionTypes - 1;
// One cell per type is reserved for operators that the table has no room for, so that totals by
// type stay exact.
constexpr std::size_t kOrdinaryCells = kRegionCells - kRegionTypes;

struct Name {
  std::string name, reason;
};

template <std::size_t Size>
void put_text(char (&to)[Size], std::string_view text) {
  std::size_t size = std::min(text.size(), Size - 1);
  std::memcpy(to, text.data(), size);
  to[size] = 0;
}

std::uint64_t saturated(Uint128 wide) {
  return wide > ~std::uint64_t{0} ? ~std::uint64_t{0} : static_cast<std::uint64_t>(wide);
}

void put_operator(Region& region, std::size_t index, const Name& name) {
  put_text(region.operators[index].name, name.name);
  put_text(region.operators[index].reason, name.reason);
}

void put_type(Region& region, std::size_t index, const std::string& name) {
  std::size_t size = std::min(name.size(), region.types[index].size() - 1);
  std::memcpy(region.types[index].data(), name.data(), size);
  region.types[index][size] = 0;
}

// The sums at the last record.
struct StepMark {
  TypeSum flop[kRegionTypes];
  std::uint64_t tokens = 0, samples = 0;
  std::uint64_t phase_ns[kRegionPhases] = {};
  std::uint64_t host_ns[kHostLines] = {};
  std::uint64_t end_ns = 0;
};

// How much a number has grown since the last record.
std::uint64_t taken(const RegionWord& word, std::uint64_t& mark) {
  std::uint64_t now = word.load(std::memory_order_relaxed);
  std::uint64_t more = now - mark;
  mark = now;
  return more;
}

void take_flop(const TypeSum* now, StepMark& mark, StepRecord& record) {
  for (std::size_t type = 0; type < kRegionTypes; ++type) {
    StepFlop flop{saturated(now[type].hardware_flop - mark.flop[type].hardware_flop),
                  saturated(now[type].model_flop - mark.flop[type].model_flop),
                  saturated(now[type].recomputed_flop - mark.flop[type].recomputed_flop), type};
    mark.flop[type] = now[type];
    if (flop.hardware_flop == 0 && flop.model_flop == 0) continue;
    if (record.types < kStepTypes) {
      record.flop[record.types++] = flop;
      continue;
    }
    StepFlop& last = record.flop[kStepTypes - 1];
    last = {last.hardware_flop + flop.hardware_flop, last.model_flop + flop.model_flop,
            last.recomputed_flop + flop.recomputed_flop, kOtherType};
  }
}

}  // namespace

struct Recorder::State {
  SpinLock tables;  // names, cells, facts, the making of the region
  SpinLock steps;   // the ring of steps, and passes
  SpinLock shared;  // the block that threads share when there are more than blocks
  std::string folder, why;
  std::vector<Name> operators;
  std::vector<std::string> types;
  std::vector<std::uint32_t> keys = std::vector<std::uint32_t>(kRegionCells, 0);
  std::size_t cells = 0;
  std::string facts;
  std::int32_t rank = -1, world_size = -1, local_rank = -1;
  std::uint64_t sequence = 0;
  StepMark mark;
  PassBook passes;

  void write_tables(Region& region) const;
  // The region, made if there is none yet. Call it under `tables`. Only start() may wait for it.
  Region* region_of(Recorder& recorder, bool patient = false);
  void take_note(const std::string& note);
  std::uint16_t cell(Recorder& recorder, Region& region, unsigned operator_id, unsigned type_id);
};

thread_local constinit RegionBlock* Recorder::block_ = nullptr;

// Gives the thread's block back when the thread ends.
struct Recorder::Lease {
  ~Lease() {
    if (block_ != nullptr) block_->taken.store(0, std::memory_order_release);
    block_ = nullptr;
  }
  void hold() {}
};

Recorder& Recorder::process() {
  static Recorder* recorder = new Recorder;
  return *recorder;
}

Recorder::Recorder() : state_(new State) {
  // A forked child must find complete tables, and must not inherit its parent's counts.
  pthread_atfork(
      [] {
        process().state_->tables.lock();
        process().state_->steps.lock();
      },
      [] {
        process().state_->steps.unlock();
        process().state_->tables.unlock();
      },
      [] {
        Recorder& recorder = process();
        State& state = *recorder.state_;
        block_ = nullptr;
        recorder.region_.store(nullptr, std::memory_order_relaxed);
        state.mark = StepMark{};
        state.passes.forget_numbers();
        state.sequence = 0;
        state.shared.unlock();
        state.steps.unlock();
        state.tables.unlock();
      });
}

void Recorder::State::write_tables(Region& region) const {
  for (std::size_t i = 0; i < operators.size(); ++i) put_operator(region, i, operators[i]);
  for (std::size_t i = 0; i < types.size(); ++i) put_type(region, i, types[i]);
  put_operator(region, kOtherOperator, {"(other operators)", ""});
  put_type(region, kOtherType, "other");
  for (std::size_t i = 0; i < kRegionCells; ++i) region.keys[i].store(keys[i]);
  std::size_t size = std::min(facts.size(), region.facts.size());
  std::memcpy(region.facts.data(), facts.data(), size);
  region.header.operators.store(static_cast<std::uint32_t>(operators.size()));
  region.header.types.store(static_cast<std::uint32_t>(types.size()));
  region.header.fact_bytes.store(static_cast<std::uint32_t>(size));
  if (rank >= 0) region.header.rank.store(rank);
  if (world_size >= 0) region.header.world_size.store(world_size);
  if (local_rank >= 0) region.header.local_rank.store(local_rank);
  passes.write_tables(region);
}

void Recorder::State::take_note(const std::string& note) {
  std::string line = "note=" + note + "\n";
  if (note.empty() || facts.find(line) != std::string::npos) return;
  if (facts.size() + line.size() <= kRegionFactBytes) facts += line;
}

Region* Recorder::State::region_of(Recorder& recorder, bool patient) {
  Region* region = recorder.region_.load(std::memory_order_relaxed);
  if (region != nullptr) return region;
  std::string note;
  Result<Region*> made = create_region_or_near(folder, nullptr, patient, note);
  take_note(note);
  if (!made.has_value()) {
    why = made.error().message;
    made = create_region("");
  }
  if (!made.has_value()) return nullptr;
  region = made.value();
  write_tables(*region);
  mark.end_ns = region->header.start_monotonic_ns;
  recorder.region_.store(region, std::memory_order_release);
  return region;
}

std::uint16_t Recorder::State::cell(Recorder& recorder, Region& region, unsigned operator_id,
                                    unsigned type_id) {
  std::atomic<std::uint16_t>& known = recorder.cell_of_[operator_id][type_id];
  std::uint16_t number = known.load(std::memory_order_relaxed);
  if (number != 0) return number;
  std::size_t index = kOrdinaryCells + type_id;
  std::uint32_t key = kOtherOperator << 8 | type_id;
  if (operator_id != kOtherOperator && cells < kOrdinaryCells) {
    index = cells++;
    key = operator_id << 8 | type_id;
  }
  keys[index] = key + 1;
  region.keys[index].store(key + 1, std::memory_order_release);
  number = static_cast<std::uint16_t>(index + 1);
  known.store(number, std::memory_order_relaxed);
  return number;
}

bool Recorder::start(const RecorderOptions& options) {
  Guard guard(state_->tables);
  Region* region = region_.load(std::memory_order_relaxed);
  bool was_private = state_->folder.empty();
  if (region != nullptr && (!was_private || options.folder.empty())) return !was_private;
  state_->folder = options.folder;
  state_->why.clear();
  if (region != nullptr) {
    // So far threads counted in private memory. The file is mapped at the same address, in its
    // place.
    std::string note;
    Result<Region*> moved = create_region_or_near(state_->folder, region, true, note);
    if (!moved.has_value()) {
      state_->why = moved.error().message;
      state_->folder.clear();
    } else if (!note.empty()) {
      state_->take_note(note);
      state_->write_tables(*region);
    }
  } else {
    region = state_->region_of(*this, true);
  }
  started_.store(region != nullptr, std::memory_order_relaxed);
  return region != nullptr && state_->why.empty() && !state_->folder.empty();
}

void Recorder::stop() {
  Region* region = region_.load(std::memory_order_acquire);
  if (region == nullptr) return;
  region->header.last_ns.store(monotonic_ns(), std::memory_order_relaxed);
  region->header.ended.store(1, std::memory_order_release);
}

std::string Recorder::why() const {
  Guard guard(state_->tables);
  return state_->why;
}

unsigned Recorder::operator_id(std::string_view name, std::string_view reason) {
  Guard guard(state_->tables);
  std::vector<Name>& names = state_->operators;
  auto same = [&](const Name& each) { return each.name == name && each.reason == reason; };
  auto found = std::find_if(names.begin(), names.end(), same);
  if (found != names.end()) return static_cast<unsigned>(found - names.begin());
  if (names.size() >= kOtherOperator) return kOtherOperator;
  names.push_back({std::string(name), std::string(reason)});
  if (Region* region = region_.load(std::memory_order_relaxed)) {
    put_operator(*region, names.size() - 1, names.back());
    region->header.operators.store(static_cast<std::uint32_t>(names.size()),
                                   std::memory_order_release);
  }
  return static_cast<unsigned>(names.size() - 1);
}

unsigned Recorder::type_id(std::string_view name) {
  Guard guard(state_->tables);
  std::vector<std::string>& names = state_->types;
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<unsigned>(found - names.begin());
  if (names.size() >= kOtherType) return kOtherType;
  names.emplace_back(name);
  if (Region* region = region_.load(std::memory_order_relaxed)) {
    put_type(*region, names.size() - 1, names.back());
    region->header.types.store(static_cast<std::uint32_t>(names.size()), std::memory_order_release);
  }
  return static_cast<unsigned>(names.size() - 1);
}

void Recorder::carry(RegionBlock& block, RegionWord& low, RegionWord& high, std::uint64_t sum) {
  std::uint64_t before = block.carries.load(std::memory_order_relaxed);
  block.carries.store(before + 1, std::memory_order_relaxed);
  high.store(high.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  low.store(sum, std::memory_order_release);
  block.carries.store(before + 2, std::memory_order_release);
}

void Recorder::count_slowly(unsigned operator_id, unsigned type_id, const CallCost& cost) {
  if (!started()) return;
  Region* region = nullptr;
  std::uint16_t cell = 0;
  {
    Guard guard(state_->tables);
    region = state_->region_of(*this);
    if (region == nullptr) return;
    cell = state_->cell(*this, *region, operator_id % kRegionOperators, type_id % kRegionTypes);
  }
  lease_block(*region);
  if (block_ != nullptr) return add(*block_, block_->cells[cell - 1u], cost);
  Guard guard(state_->shared);
  RegionBlock& shared = region->blocks[kRegionBlocks];
  add(shared, shared.cells[cell - 1u], cost);
}

RegionBlock* Recorder::lease_block() {
  Region* region = live_region();
  if (region != nullptr) lease_block(*region);
  return region == nullptr ? nullptr : block_;
}

void Recorder::lease_block(Region& region) {
  for (std::size_t i = 0; block_ == nullptr && i < kRegionBlocks; ++i) {
    std::uint32_t free = 0;
    if (!region.blocks[i].taken.compare_exchange_strong(free, 1, std::memory_order_acquire)) {
      continue;
    }
    static thread_local Lease lease;
    lease.hold();
    block_ = &region.blocks[i];
    std::uint32_t used = region.header.blocks.load(std::memory_order_relaxed);
    while (used <= i && !region.header.blocks.compare_exchange_weak(
                            used, static_cast<std::uint32_t>(i + 1), std::memory_order_release)) {
    }
  }
}

Region* Recorder::live_region() {
  Region* region = region_.load(std::memory_order_acquire);
  if (region != nullptr || !started()) return region;
  Guard guard(state_->tables);
  return state_->region_of(*this);
}

void Recorder::add_pass(const PassEnd& pass) {
  Region* region = live_region();
  if (region == nullptr) return;
  Guard guard(state_->steps);
  state_->passes.add(*region, pass);
}

void Recorder::add_pass_time(PassPhase phase, unsigned model, std::uint64_t duration_ns) {
  Region* region = live_region();
  if (region == nullptr) return;
  Guard guard(state_->steps);
  state_->passes.add_time(*region, phase, model, duration_ns);
}

unsigned Recorder::device_id(std::string_view name, std::string_view identity) {
  Guard guard(state_->tables);
  return state_->passes.device_id(region_.load(std::memory_order_relaxed), name, identity);
}

unsigned Recorder::add_model() {
  Guard guard(state_->tables);
  return state_->passes.add_model(region_.load(std::memory_order_relaxed));
}

void Recorder::name_model(unsigned model, std::string_view name) {
  Guard guard(state_->tables);
  state_->passes.name_model(region_.load(std::memory_order_relaxed), model, name);
}

void Recorder::add_host(HostLine line, std::uint64_t duration_ns) {
  if (Region* region = region_.load(std::memory_order_acquire)) {
    region->header.host_ns[static_cast<std::size_t>(line)].fetch_add(duration_ns,
                                                                     std::memory_order_relaxed);
  }
}

void Recorder::add_collective(std::uint64_t bytes) {
  if (Region* region = region_.load(std::memory_order_acquire)) {
    region->header.collectives.fetch_add(1, std::memory_order_relaxed);
    region->header.collective_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
}

void Recorder::add_phase(RegionPhase phase, std::uint64_t duration_ns) {
  if (Region* region = region_.load(std::memory_order_acquire)) {
    region->header.phase_ns[static_cast<std::size_t>(phase)].fetch_add(duration_ns,
                                                                       std::memory_order_relaxed);
  }
}

static bool push_step(Region& region, const StepRecord& record) {
  std::uint64_t head = region.header.step_head.load(std::memory_order_relaxed);
  if (head - region.header.step_tail.load(std::memory_order_acquire) >= kRegionSteps) return false;
  region.steps[head % kRegionSteps] = record;
  region.header.step_head.store(head + 1, std::memory_order_release);
  return true;
}

void Recorder::end_step(const StepEnd& end) {
  Region* live = live_region();
  if (live == nullptr) return;
  Region& region = *live;
  RegionHeader& header = region.header;
  if (!state_->steps.lock_within(1000)) {
    header.steps_dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  StepMark& mark = state_->mark;
  TypeSum sums[kRegionTypes];
  sum_types(region, sums);
  StepRecord record{};
  record.sequence = state_->sequence++;
  record.index = end.index == ~0ull ? record.sequence : end.index;
  record.kind = end.kind;
  record.profiled = profiled_.load(std::memory_order_relaxed);
  record.end_ns = end.end_ns == 0 ? monotonic_ns() : end.end_ns;
  record.start_ns = end.start_ns == 0 ? mark.end_ns : end.start_ns;
  record.tokens = taken(header.tokens, mark.tokens);
  record.samples = taken(header.samples, mark.samples);
  for (std::size_t i = 0; i < kRegionPhases; ++i) {
    record.phase_ns[i] = taken(header.phase_ns[i], mark.phase_ns[i]);
  }
  for (std::size_t i = 0; i < kHostLines; ++i) {
    record.host_ns[i] = taken(header.host_ns[i], mark.host_ns[i]);
  }
  take_flop(sums, mark, record);
  state_->passes.take(region, record);
  mark.end_ns = record.end_ns;
  header.last_ns.store(record.end_ns, std::memory_order_relaxed);
  if (!push_step(region, record)) header.steps_dropped.fetch_add(1, std::memory_order_relaxed);
  state_->steps.unlock();
}

void Recorder::answer(std::uint64_t request) {
  if (Region* region = region_.load(std::memory_order_acquire)) {
    region->header.answer.store(request, std::memory_order_release);
  }
}

void Recorder::add_device_times(std::uint64_t ago, const std::vector<std::uint64_t>& durations_ns) {
  Region* live = live_region();
  if (live == nullptr || !state_->steps.lock_within(1000)) return;
  StepRecord record{.sequence = state_->sequence, .tokens = ago};
  record.kind = StepKind::device_times;
  record.start_ns = record.end_ns = state_->mark.end_ns;
  record.samples = std::min(durations_ns.size(), kRegionPhases);
  std::copy_n(durations_ns.begin(), record.samples, record.phase_ns.begin());
  push_step(*live, record);
  state_->steps.unlock();
}

void Recorder::set_rank(std::int32_t rank, std::int32_t world_size, std::int32_t local_rank) {
  Guard guard(state_->tables);
  state_->rank = rank;
  state_->world_size = world_size;
  state_->local_rank = local_rank;
  if (Region* region = region_.load(std::memory_order_relaxed)) {
    region->header.rank.store(rank);
    region->header.world_size.store(world_size);
    region->header.local_rank.store(local_rank);
  }
}

void Recorder::fact(std::string_view key, std::string_view value) {
  std::string line = std::string(key) + "=" + std::string(value.substr(0, 1024));
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  Guard guard(state_->tables);
  if (state_->facts.size() + line.size() > kRegionFactBytes) return;
  state_->facts += line;
  Region* region = region_.load(std::memory_order_relaxed);
  if (region == nullptr) return;
  std::size_t at = region->header.fact_bytes.load(std::memory_order_relaxed);
  std::memcpy(region->facts.data() + at, line.data(), line.size());
  region->header.fact_bytes.store(static_cast<std::uint32_t>(at + line.size()),
                                  std::memory_order_release);
}

std::vector<Recorder::Total> Recorder::totals() const {
  std::vector<Total> totals;
  const Region* region = region_.load(std::memory_order_acquire);
  if (region == nullptr) return totals;
  for (const CellSum& sum : sum_cells(*region)) {
    Total total;
    total.name = region->operators[sum.operator_id].name;
    total.reason = region->operators[sum.operator_id].reason;
    total.type = region->types[sum.type_id].data();
    total.calls = sum.calls;
    total.hardware_flop = FlopCount::from_wide(sum.hardware_flop);
    total.model_flop = FlopCount::from_wide(sum.model_flop);
    total.recomputed_flop = FlopCount::from_wide(sum.recomputed_flop);
    total.bytes = sum.bytes;
    totals.push_back(std::move(total));
  }
  return totals;
}

}  // namespace mfu
