// log_step from Python without any allocation: METH_FASTCALL arguments, names compared by identity
// (the compiler interns them), numbers read in place. It uses only the limited API.
#include <array>
#include <utility>

#include "monitor.h"

namespace mfu::python {

namespace nb = nanobind;

namespace {

// Python 3.9 has no Py_NewRef.
PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

enum Argument : std::uint8_t {
  a_step,
  a_epoch,
  a_loss,
  a_grad_norm,
  a_learning_rate,
  a_attention_mask,
  a_skip_wandb,
  a_duration_s,
  a_batch,
  a_seq,
  a_tokens,
  a_squares,
  a_padded_to,
  a_samples,
  a_images,
  a_counted_flop,
  a_lengths,
  a_step_seconds
};
constexpr std::size_t kArguments = a_step_seconds + 1;
// The only table of log_step's arguments. mfu/_monitor.py asks for it, and a test compares it with
// the signature that people read. The first kPositional may be given by position.
struct ArgumentRow {
  Argument at;
  const char* name;
  const char* kind;
};
constexpr std::array<ArgumentRow, kArguments> kTable = {{
    {a_step, "step", "step"},
    {a_epoch, "epoch", "number"},
    {a_loss, "loss", "number"},
    {a_grad_norm, "grad_norm", "number"},
    {a_learning_rate, "learning_rate", "number"},
    {a_attention_mask, "attention_mask", "mask"},
    {a_skip_wandb, "skip_wandb", "flag"},
    {a_duration_s, "duration_s", "number"},
    {a_batch, "batch", "rows"},
    {a_seq, "seq", "rows"},
    {a_tokens, "tokens", "count"},
    {a_squares, "squares", "count"},
    {a_padded_to, "padded_to", "count"},
    {a_samples, "samples", "count"},
    {a_images, "images", "count"},
    {a_counted_flop, "counted_flop", "flop"},
    {a_lengths, "lengths", "mask"},
    {a_step_seconds, "step_seconds", "duration_s"},  // its name in 0.1.0
}};
constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kArguments; ++i) {
    if (kTable[i].at != i) return false;
  }
  return true;
}
static_assert(is_in_order());
constexpr Py_ssize_t kPositional = a_skip_wandb + 1;

// Where the keywords of the last call belong. A line of a program passes the same tuple of names
// each time, so that its names are looked up once.
struct Places {
  nb::object keywords;   // kept alive, so that no other tuple gets its address
  Py_ssize_t count = 0;  // of positional arguments
  std::array<Argument, kArguments> at{};
};

struct Bound {
  LoopMonitor* monitor;
  nb::object core;   // holds the monitor
  nb::object owner;  // a weak reference to the mfu.Monitor
  StepShape shape;
  Places places;
};

const std::array<PyObject*, kArguments>& interned_names() {
  static const std::array<PyObject*, kArguments> kInterned = [] {
    std::array<PyObject*, kArguments> made{};
    for (std::size_t i = 0; i < kArguments; ++i) {
      made[i] = PyUnicode_InternFromString(kTable[i].name);
    }
    return made;
  }();
  return kInterned;
}

using Given = std::array<PyObject*, kArguments>;  // nullptr: not given, or None

// The index of that argument; kArguments if there is none. Usually it is `next` or soon after it.
std::size_t argument_of(PyObject* name, std::size_t next,
                        const std::array<PyObject*, kArguments>& names) {
  for (std::size_t at = next; at < kArguments; ++at) {
    if (names[at] == name) return at;
  }
  for (std::size_t at = 0; at < next; ++at) {
    if (names[at] == name) return at;
  }
  std::size_t at = 0;
  while (at < kArguments && PyUnicode_Compare(names[at], name) != 0) ++at;
  return at;
}

// False if an argument is unknown or named twice.
bool find_places(Places& places, Py_ssize_t count, PyObject* keywords) {
  places.keywords = nb::borrow(keywords);
  places.count = -1;  // not found yet
  std::array<bool, kArguments> taken{};
  for (Py_ssize_t i = 0; i < count; ++i) taken[static_cast<std::size_t>(i)] = true;
  const auto& names = interned_names();
  auto next = static_cast<std::size_t>(count);
  auto named = static_cast<std::size_t>(PyTuple_Size(keywords));
  for (std::size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GetItem(keywords, static_cast<Py_ssize_t>(i));
    std::size_t found = argument_of(name, next, names);
    if (found == kArguments) return false;
    next = found + 1;
    if (found == a_step_seconds) found = a_duration_s;
    if (std::exchange(taken[found], true)) return false;
    places.at[i] = static_cast<Argument>(found);
  }
  places.count = count;
  return true;
}

// False if an argument is unknown or given twice.
bool gather(Given& given, PyObject* const* values, Py_ssize_t count, PyObject* keywords,
            Places& places) {
  if (count > kPositional) return false;
  auto known = [](PyObject* value) { return value == Py_None ? nullptr : value; };
  for (Py_ssize_t i = 0; i < count; ++i) given[static_cast<std::size_t>(i)] = known(values[i]);
  if (keywords == nullptr) return true;
  bool found = keywords == places.keywords.ptr() && count == places.count;
  if (!found && !find_places(places, count, keywords)) return false;
  auto named = static_cast<std::size_t>(PyTuple_Size(keywords));
  for (std::size_t i = 0; i < named; ++i) {
    given[places.at[i]] = known(values[static_cast<std::size_t>(count) + i]);
  }
  return true;
}

bool number(PyObject* object, std::optional<double>& to) {
  if (object == nullptr) return true;
  if (PyFloat_CheckExact(object)) {
    to = PyFloat_AsDouble(object);
    return true;
  }
  if (!PyLong_CheckExact(object)) return false;
  double value = PyLong_AsDouble(object);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  to = value;
  return true;
}

bool whole(PyObject* object, std::uint64_t& to) {
  if (object == nullptr) return true;
  if (!PyLong_CheckExact(object)) return false;
  unsigned long long value = PyLong_AsUnsignedLongLong(object);
  if (value == ~0ull && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  to = value;
  return true;
}

bool shape_given(const Given& given, StepShape& shape) {
  std::uint64_t batch = 0, sequence = 0;
  if (!whole(given[a_batch], batch) || !whole(given[a_seq], sequence) ||
      !whole(given[a_tokens], shape.tokens) || !whole(given[a_squares], shape.squares) ||
      !whole(given[a_padded_to], shape.padded_length) || !whole(given[a_images], shape.images)) {
    return false;
  }
  if (batch >= 1ull << 31 || sequence >= 1ull << 31) return false;
  shape.sequences = batch;
  if (shape.tokens == 0 && sequence != 0) {
    if (batch == 0) shape.sequences = 1;
    shape.tokens = shape.sequences * sequence;
    shape.squares = shape.tokens * sequence;
  }
  return true;
}

// Fills `info`. False if the slow way is needed.
bool plain(const Given& given, const StepShape& usual, StepInfo& info) {
  if (given[a_step] == nullptr || given[a_attention_mask] != nullptr ||
      given[a_lengths] != nullptr) {
    return false;
  }
  if (given[a_skip_wandb] != nullptr && given[a_skip_wandb] != Py_False) return false;
  std::uint64_t counted = 0;
  if (!whole(given[a_step], info.step) || !number(given[a_epoch], info.epoch) ||
      !number(given[a_loss], info.loss) || !number(given[a_grad_norm], info.grad_norm) ||
      !number(given[a_learning_rate], info.learning_rate) ||
      !number(given[a_duration_s], info.duration_s) || !whole(given[a_samples], info.samples) ||
      !shape_given(given, info.shape)) {
    return false;
  }
  if (given[a_counted_flop] != nullptr) {
    if (!whole(given[a_counted_flop], counted)) return false;
    info.counted_flop = FlopCount(counted);
  }
  if (info.shape.tokens == 0 && info.shape.sequences == 0) info.shape = usual;
  return true;
}

// Calls a method of the mfu.Monitor. Returns None if the monitor is gone, or in a forked child,
// which could wait forever for a lock that a thread of its parent held. Null: it raised something
// that belongs to the program, such as Ctrl-C or an exception of a signal handler.
PyObject* ask_owner(const Bound& bound, const char* method, const nb::tuple& positional,
                    PyObject* named) {
  if (bound.monitor->process != ::getpid()) return none();
  nb::object owner = nb::steal(PyObject_CallObject(bound.owner.ptr(), nullptr));
  if (!owner.is_valid() || owner.is_none()) return owner.release().ptr();
  nb::object function = nb::steal(PyObject_GetAttrString(owner.ptr(), method));
  if (!function.is_valid()) return nullptr;
  return PyObject_Call(function.ptr(), positional.ptr(), named);
}

PyObject* ask_owner(const Bound& bound, const char* method, PyObject* const* values,
                    Py_ssize_t count, PyObject* keywords) {
  nb::list positional;
  for (Py_ssize_t i = 0; i < count; ++i) positional.append(nb::borrow(values[i]));
  nb::dict named;
  Py_ssize_t names = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  for (Py_ssize_t i = 0; i < names; ++i) {
    PyDict_SetItem(named.ptr(), PyTuple_GetItem(keywords, i), values[count + i]);
  }
  return ask_owner(bound, method, nb::tuple(positional), named.ptr());
}

bool call_notice(const Bound& bound, std::uint64_t step) {
  bound.monitor->notice->store(false, std::memory_order_relaxed);
  PyObject* done = ask_owner(bound, "_notice", nb::make_tuple(step), nullptr);
  Py_XDECREF(done);
  return done != nullptr;
}

// Arguments that mfu.Monitor has made plain: a step and, by name, the numbers that a device still
// has.
struct Odd {
  StepInfo info;
  nb::dict late;
};
Odd odd_step(const nb::dict& arguments, const StepShape& usual) {
  Odd odd;
  Given given{};
  for (std::size_t i = 0; i < kArguments; ++i) {
    PyObject* value = PyDict_GetItem(arguments.ptr(), interned_names()[i]);
    if (value == nullptr || PyFloat_CheckExact(value) || PyLong_CheckExact(value)) {
      given[i] = value;
    } else {
      odd.late[nb::handle(interned_names()[i])] = nb::borrow(value);
    }
  }
  PyObject* flop = std::exchange(given[a_counted_flop], nullptr);
  PyObject* nought = PyLong_FromLong(0);
  if (given[a_step] == nullptr) given[a_step] = nought;  // for numbers that arrived later
  plain(given, {}, odd.info);
  Py_DECREF(nought);
  if (flop != nullptr) odd.info.counted_flop = count_of(nb::borrow<nb::int_>(flop), "counted_flop");
  // If there are sums of a mask, they are used instead of what was given for its rows.
  PyObject* sums = PyDict_GetItemString(arguments.ptr(), "sums");
  StepShape& shape = odd.info.shape;
  std::uint64_t batch = 0;
  whole(given[a_batch], batch);
  if (sums == nullptr) {
    if (shape.tokens == 0 && shape.sequences == 0) shape = usual;
    return odd;
  }
  if (odd.info.samples == 0) odd.info.samples = batch;
  shape = {.padded_length = shape.padded_length, .images = shape.images};
  if (!PyTuple_CheckExact(sums)) {
    odd.late["sums"] = nb::borrow(sums);
    return odd;
  }
  std::uint64_t width = 0;
  whole(PyTuple_GetItem(sums, 0), shape.sequences);
  whole(PyTuple_GetItem(sums, 1), shape.tokens);
  whole(PyTuple_GetItem(sums, 2), shape.squares);
  whole(PyTuple_GetItem(sums, 3), width);
  if (width != 0) shape.padded_length = width;
  if (odd.info.samples == 0) odd.info.samples = shape.sequences;
  return odd;
}

// Adds numbers that have arrived from a device to their steps. The thread that logs asks for them,
// because a question from another thread breaks the capture of a CUDA graph. It stops at the first
// one that has not arrived, so that reports keep their order. False: see ask_owner().
bool take_arrived(const Bound& bound) {
  LoopMonitor& monitor = *bound.monitor;
  if (monitor.asking || monitor.process != ::getpid()) return true;
  monitor.asking = true;
  bool good = true;
  while (good && !monitor.waiting.empty()) {
    AwaitedStep front = monitor.waiting.front();
    nb::object arrived =
        nb::steal(ask_owner(bound, "_arrived", nb::make_tuple(front.late), nullptr));
    good = arrived.is_valid();
    if (!good || arrived.is_none()) break;
    monitor.waiting.pop_front();
    monitor.monitor->complete(front.ticket, odd_step(nb::borrow<nb::dict>(arrived), {}).info);
  }
  monitor.asking = false;
  return good;
}

bool await(const Bound& bound, const Odd& odd) {
  LoopMonitor& monitor = *bound.monitor;
  std::uint32_t ticket = monitor.monitor->log_awaited(odd.info);
  if (ticket == 0) return true;
  monitor.waiting.push_back({ticket, odd.late});
  if (monitor.waiting.size() <= kMostAwaited) return true;
  monitor.monitor->complete(monitor.waiting.front().ticket, {});
  monitor.waiting.pop_front();
  nb::object said = nb::steal(ask_owner(bound, "_behind", nb::make_tuple(kMostAwaited), nullptr));
  return said.is_valid();
}

// Called if something is not a plain number.
bool log_slowly(const Bound& bound, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  nb::object made = nb::steal(ask_owner(bound, "_made_plain", values, count, keywords));
  if (!made.is_valid()) return false;
  if (made.is_none()) return true;
  Odd odd = odd_step(nb::borrow<nb::dict>(made), bound.shape);
  if (!odd.late.empty()) return await(bound, odd);
  bound.monitor->monitor->log_step(odd.info);
  return true;
}

constexpr const char* kCapsule = "mfu.log_step";

PyObject* log_step(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  auto* bound = static_cast<Bound*>(PyCapsule_GetContext(self));
  Given given{};
  StepInfo info;
  bool good = true;
  if (!bound->monitor->waiting.empty()) good = take_arrived(*bound);
  if (!good) return nullptr;
  if (gather(given, values, count, keywords, bound->places) && plain(given, bound->shape, info)) {
    if (bound->monitor->notice->load(std::memory_order_relaxed)) {
      good = call_notice(*bound, info.step);
    }
    bound->monitor->monitor->log_step(info);
  } else {
    good = log_slowly(*bound, values, count, keywords);
  }
  return good ? none() : nullptr;
}

PyObject* count_tokens(PyObject* self, PyObject* const* values, Py_ssize_t count,
                       PyObject* keywords) {
  auto* bound = static_cast<Bound*>(PyCapsule_GetContext(self));
  std::uint64_t tokens = 0;
  if (count == 1 && keywords == nullptr && whole(values[0], tokens)) {
    bound->monitor->monitor->count_tokens(tokens);
    return none();
  }
  return ask_owner(*bound, "_count_slowly", values, count, keywords);
}

PyMethodDef count_tokens_method() {
  return {"count_tokens",
          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&count_tokens)),
          METH_FASTCALL | METH_KEYWORDS,
          "count_tokens(tokens)\n--\n\nCounts generated tokens. Any thread may call it."};
}

nb::object bound_function(PyMethodDef& method, Bound* bound) {
  nb::object capsule = nb::steal(PyCapsule_New(bound, kCapsule, [](PyObject* made) {
    delete static_cast<Bound*>(PyCapsule_GetPointer(made, kCapsule));
  }));
  PyCapsule_SetContext(capsule.ptr(),
                       bound);  // calls read this: it needs no comparison of names
  return nb::steal(PyCFunction_NewEx(&method, capsule.ptr(), nullptr));
}

// "step, epoch=None, …, *, duration_s=None, …".
std::string log_step_words() {
  std::string words = "log_step(";
  for (const ArgumentRow& row : kTable) {
    if (row.at == kPositional) words += ", *";
    if (row.at != a_step) words += ", ";
    words += row.name;
    if (row.at != a_step) words += row.at == a_skip_wandb ? "=False" : "=None";
  }
  return words + ")\n--\n\nLogs one step. Raises nothing of its own.";
}

PyMethodDef log_step_method() {
  static const std::string kWords = log_step_words();
  return {"log_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&log_step)),
          METH_FASTCALL | METH_KEYWORDS, kWords.c_str()};
}

}  // namespace

nb::object log_step_function(LoopMonitor& monitor, nb::object core, nb::object owner,
                             const std::vector<std::uint64_t>& shape) {
  static PyMethodDef method = log_step_method();
  return bound_function(
      method, new Bound{&monitor, std::move(core), std::move(owner), shape_of(shape), {}});
}

nb::object count_tokens_function(LoopMonitor& monitor, nb::object core, nb::object owner) {
  static PyMethodDef method = count_tokens_method();
  return bound_function(method, new Bound{&monitor, std::move(core), std::move(owner), {}, {}});
}

std::size_t take_arrived(LoopMonitor& monitor, nb::object owner) {
  if (!take_arrived(Bound{&monitor, {}, std::move(owner), {}, {}})) throw nb::python_error();
  return monitor.waiting.size();
}

std::vector<std::pair<std::string, std::string>> step_arguments() {
  std::vector<std::pair<std::string, std::string>> arguments;
  for (const ArgumentRow& row : kTable) arguments.emplace_back(row.name, row.kind);
  return arguments;
}

}  // namespace mfu::python
