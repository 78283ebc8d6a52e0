// The monitor of a training loop, and the tokens of generation. log_step is a vectorcall function:
// it reads keyword arguments in place and makes no object.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "core.h"
#include "mfu/observer.h"
#include "monitor.h"

namespace mfu::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

// Reports for sinks written in Python, as lines of JSON. The monitor's thread fills it and never
// touches the interpreter. If nobody takes them, the oldest are lost and counted.
class HeldReports : public Sink {
 public:
  explicit HeldReports(std::shared_ptr<Outbox> outbox) : outbox_(std::move(outbox)) {}
  std::string name() const override { return "the Python package's sinks"; }
  Result<void> open() override { return {}; }
  Result<void> write(std::span<const StepReport> reports) override {
    for (const StepReport& report : reports) outbox_->put(to_json(report));
    return {};
  }
  Result<void> close() override { return {}; }

 private:
  std::shared_ptr<Outbox> outbox_;
};

nb::dict dict_of(const Calibration& calibration) {
  nb::dict found;
  found["linear"] = calibration.linear;
  found["quadratic"] = calibration.quadratic;
  found["square"] = calibration.square;
  found["step"] = calibration.step;
  found["readings"] = calibration.readings;
  found["apart"] = calibration.apart;
  found["least_share"] = calibration.least_share;
  found["most_share"] = calibration.most_share;
  return found;
}

// The sums of each phase over all models.
std::vector<PhaseDone> observed_phases(std::uintptr_t address) {
  constexpr std::size_t kMost = 256;
  std::vector<PhaseDone> sums;
  if (address == 0) return sums;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a symbol's address comes from Python as a number
  auto read = reinterpret_cast<decltype(&mfu_observer_read_phases)>(address);
  std::array<mfu_observer_phase, kMost> rows{};
  std::size_t count = std::min(read(0, rows.data(), rows.size()), rows.size());
  constexpr std::pair<std::string_view, RunPhase> kNames[] = {{"train", RunPhase::train},
                                                              {"validation", RunPhase::validation},
                                                              {"prefill", RunPhase::prefill},
                                                              {"decode", RunPhase::decode},
                                                              {"forward", RunPhase::forward}};
  for (const auto& [name, phase] : kNames) {
    PhaseDone sum{.phase = phase};
    std::uint64_t moved = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const mfu_observer_phase& row = rows[i];
      if (name != row.phase) continue;
      sum.tokens += row.tokens;
      sum.flop += FlopCount::from_halves(row.model_flop_high, row.model_flop_low);
      sum.time += std::chrono::nanoseconds(row.time_ns);
      moved += row.weight_read_bytes + row.cache_read_bytes + row.cache_written_bytes;
    }
    if (moved != 0) sum.moved = Bytes{moved};
    sums.push_back(sum);
  }
  return sums;
}

// The options of mfu/_monitor.py.
struct Opened {
  nb::dict options;
  template <typename T>
  std::optional<T> maybe(const char* key) {
    nb::object value = options.attr("get")(key);
    if (value.is_none()) return std::nullopt;
    return nb::cast<T>(value);
  }
  std::string text(const char* key) { return maybe<std::string>(key).value_or(""); }
};

MonitorOptions options_of(Opened& given, LoopMonitor& self) {
  MonitorOptions options;
  options.model_json = given.text("model_json");
  if (auto spec = given.maybe<ModelSpec>("spec")) options.model = *std::move(spec);
  options.flop_per_token = given.maybe<double>("flop_per_token");
  options.rank = given.maybe<std::uint32_t>("rank");
  options.config = of_rank(self.settings.config, options.rank.value_or(0));
  using Own = std::tuple<std::string, std::string, std::optional<std::uint32_t>,
                         std::optional<std::uint64_t>>;
  if (auto own = given.maybe<Own>("own_device")) {
    auto& [name, architecture, units, memory] = *own;
    options.own_device = DeviceTraits{.name = name, .architecture = architecture, .units = units};
    if (memory) options.own_device->memory = Bytes{*memory};
  }
  options.recompute = value_or_raise(parse_recompute(given.text("recompute")));
  options.queue_capacity = given.maybe<std::size_t>("queue_capacity").value_or(4096);
  auto lora = given.maybe<std::pair<std::uint64_t, std::vector<std::string>>>("lora");
  if (lora) options.trained = {.lora_rank = lora->first, .lora_targets = lora->second};
  options.trained.frozen =
      given.maybe<std::vector<std::string>>("frozen").value_or(std::vector<std::string>());
  if (given.maybe<bool>("hold_reports").value_or(false)) {
    options.sinks.push_back(std::make_unique<HeldReports>(self.outbox));
  }
  self.phases->store(given.maybe<std::uintptr_t>("phases_at").value_or(0));
  options.phases = [reader = self.phases] { return observed_phases(reader->load()); };
  std::shared_ptr<std::atomic<bool>> notice = self.notice;
  options.on_warning = [notice](const std::string&) {
    notice->store(true, std::memory_order_relaxed);
  };
  return options;
}

void bind_tokens(nb::class_<LoopMonitor>& monitor) {
  monitor
      .def("count_tokens_function", &count_tokens_function, "core"_a, "owner"_a,
           nb::sig("def count_tokens_function(self, core: object, owner: object) -> "
                   "collections.abc.Callable[..., None]"),
           "count_tokens itself.")
      .def(
          "count_prefill",
          [](LoopMonitor& self, std::uint64_t prompts, std::uint64_t tokens,
             std::uint64_t squares) {
            self.monitor->tokens().add_prefill(
                {.sequences = prompts, .tokens = tokens, .squares = squares});
          },
          "prompts"_a, "tokens"_a, "squares"_a)
      .def(
          "count_decode",
          [](LoopMonitor& self, std::uint64_t sequences, std::uint64_t context) {
            self.monitor->tokens().add_decode(sequences, context);
          },
          "sequences"_a, "context"_a)
      .def(
          "read_phases_at",
          [](LoopMonitor& self, std::uintptr_t address) { self.phases->store(address); },
          "address"_a, "Tells the address of mfu_observer_read_phases, now that it is loaded.");
}

void bind_answers(nb::class_<LoopMonitor>& monitor) {
  monitor
      .def("last_report",
           [](LoopMonitor& self) -> std::optional<std::string> {
             std::optional<StepReport> report = self.monitor->last_report();
             if (!report) return std::nullopt;
             return to_json(*report);
           })
      .def("calibration", [](LoopMonitor& self) { return dict_of(self.monitor->calibration()); })
      .def("warnings", [](LoopMonitor& self) { return in_python(self.monitor->warnings()); })
      .def("status",
           [](LoopMonitor& self) {
             MonitorStatus status = self.monitor->status();
             nb::dict found;
             found["logged"] = status.logged;
             found["dropped"] = status.dropped;
             found["reported"] = status.reported;
             found["unsent"] = status.unsent;
             if (self.process == ::getpid()) found["unheard"] = self.outbox->lost();
             found["run_directory"] = status.run_directory;
             return found;
           })
      .def(
          "take_reports", [](LoopMonitor& self) { return self.outbox->take(); },
          "The lines of JSON that came since the last call.")
      .def(
          "flush",
          [](LoopMonitor& self, double seconds) {
            // infinity cannot be converted to milliseconds
            double bounded = std::min(seconds, 1e6);
            return self.monitor->flush(
                std::chrono::milliseconds(static_cast<std::int64_t>(bounded * 1e3)));
          },
          "seconds"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "close",
          [](LoopMonitor& self, double seconds) {
            self.monitor->close(
                std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)));
          },
          "seconds"_a, nb::call_guard<nb::gil_scoped_release>());
}

void bind_measurement(nb::class_<LoopMonitor>& monitor) {
  monitor
      .def(
          "set_phase",
          [](LoopMonitor& self, const std::string& phase) {
            self.monitor->set_phase(value_or_raise(parse_training_phase(phase)));
          },
          "phase"_a)
      .def(
          "measurement_due",
          [](LoopMonitor& self, std::uint64_t step) { return self.monitor->measurement_due(step); },
          "step"_a)
      .def(
          "add_reading",
          [](LoopMonitor& self, std::uint64_t step, const std::vector<std::uint64_t>& shape,
             const nb::int_& flop, const std::optional<nb::int_>& attention, bool of_another_rank) {
            FlopReading reading{
                .step = step, .shape = shape_of(shape), .flop = count_of(flop, "flop")};
            if (attention) reading.attention_flop = count_of(*attention, "attention_flop");
            reading.of_another_rank = of_another_rank;
            self.monitor->add_reading(reading);
          },
          "step"_a, "shape"_a, "flop"_a, "attention_flop"_a.none(), "of_another_rank"_a = false)
      .def(
          "add_calibration",
          [](LoopMonitor& self, double linear, double quadratic, bool square, std::uint64_t step,
             std::uint32_t readings, bool apart, double least_share, double most_share) {
            self.monitor->add_calibration(
                {linear, quadratic, square, step, readings, apart, least_share, most_share});
          },
          "linear"_a, "quadratic"_a, "square"_a, "step"_a, "readings"_a, "apart"_a, "least_share"_a,
          "most_share"_a);
}

}  // namespace

StepShape shape_of(const std::vector<std::uint64_t>& sums) {
  StepShape shape;
  if (sums.size() == 5) {
    shape = {.sequences = sums[0],
             .tokens = sums[1],
             .squares = sums[2],
             .padded_length = sums[3],
             .images = sums[4]};
  }
  return shape;
}

void bind_monitor(nb::module_& module) {
  auto monitor = nb::class_<LoopMonitor>(module, "Monitor", "mfu.Monitor is made of this.");
  monitor
      .def(
          "__init__",
          [](LoopMonitor* self, const nb::dict& keywords, const nb::handle& config,
             nb::dict options_given) {
            LoopMonitor made;
            made.settings = read_settings(keywords, config);
            Opened given{std::move(options_given)};
            MonitorOptions options = options_of(given, made);
            auto opened = [&options] {
              nb::gil_scoped_release free;  // this reads files and asks drivers
              return Monitor::open(std::move(options));
            }();
            made.monitor = value_or_raise(std::move(opened));
            new (self) LoopMonitor(std::move(made));
          },
          "keywords"_a, "config"_a.none(), "options"_a)
      .def_prop_ro(
          "settings", [](LoopMonitor& self) { return dict_of(self.settings); },
          "The settings of keywords and config, by key without its section.")
      .def_prop_ro("problems", [](LoopMonitor& self) { return self.settings.problems; })
      .def("log_step_function", &log_step_function, "core"_a, "owner"_a, "shape"_a,
           nb::sig("def log_step_function(self, core: object, owner: object, shape: "
                   "Sequence[int]) -> collections.abc.Callable[..., None]"),
           "log_step itself: `owner` is a weak reference to the mfu.Monitor.")
      .def("take_arrived", &take_arrived, "owner"_a,
           "Adds numbers that arrived from a device to their steps. Returns how many still wait.")
      .def(
          "wake", [](LoopMonitor& self) { self.notice->store(true, std::memory_order_relaxed); },
          "The next log_step calls `notice`.");
  bind_measurement(monitor);
  bind_tokens(monitor);
  bind_answers(monitor);
  bind_mask(module);
  module.def(
      "read_settings",
      [](const nb::handle& config) { return dict_of(read_settings(nb::dict(), config)); },
      "config"_a.none(), "The settings of a config, by key without its section.");
  module.def("step_arguments", &step_arguments, "log_step's arguments, each with its kind.");
  module.def("step_metric_names", [] {
    std::vector<std::string> names;
    for (std::string_view name : step_metric_names()) names.emplace_back(name);
    return names;
  });
}

}  // namespace mfu::python
