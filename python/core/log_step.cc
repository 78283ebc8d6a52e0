// log_step from Python without an allocation: METH_FASTCALL arguments, names found by identity (the
// compiler interns them), numbers read in place. Only the limited API is used.
#include <array>
#include <cstring>

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
  a_step_seconds,
  a_batch,
  a_seq,
  a_tokens,
  a_squares,
  a_padded_to,
  a_samples,
  a_images,
  a_counted_flop,
  a_lengths
};
constexpr std::size_t kArguments = a_lengths + 1;
constexpr std::array<const char*, kArguments> kNames = {
    "step",       "epoch",        "loss",   "grad_norm",    "learning_rate", "attention_mask",
    "skip_wandb", "step_seconds", "batch",  "seq",          "tokens",        "squares",
    "padded_to",  "samples",      "images", "counted_flop", "lengths"};
constexpr Py_ssize_t kPositional = a_skip_wandb + 1;

struct Bound {
  LoopMonitor* monitor;
  nb::object owner, slow, notice;
  StepShape shape;
};

const std::array<PyObject*, kArguments>& interned_names() {
  static const std::array<PyObject*, kArguments> kInterned = [] {
    std::array<PyObject*, kArguments> made{};
    for (std::size_t i = 0; i < kArguments; ++i) made[i] = PyUnicode_InternFromString(kNames[i]);
    return made;
  }();
  return kInterned;
}

using Given = std::array<PyObject*, kArguments>;  // nullptr: not given, or None

// False: an argument nobody knows, or one given twice.
bool gather(Given& given, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  if (count > kPositional) return false;
  for (Py_ssize_t i = 0; i < count; ++i) given[static_cast<std::size_t>(i)] = values[i];
  Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  const auto& names = interned_names();
  std::size_t next = static_cast<std::size_t>(count);  // mostly in order
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GetItem(keywords, i);
    std::size_t found = kArguments;
    for (std::size_t tried = 0; tried < kArguments && found == kArguments; ++tried) {
      std::size_t at = (next + tried) % kArguments;
      if (names[at] == name) found = at;
    }
    for (std::size_t at = 0; at < kArguments && found == kArguments; ++at) {
      if (PyUnicode_Compare(names[at], name) == 0) found = at;
    }
    if (found == kArguments || given[found] != nullptr) return false;
    given[found] = values[count + i];
    next = found + 1;
  }
  for (PyObject*& each : given) {
    if (each == Py_None) each = nullptr;
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

// Into `info`; false where the slow way is needed.
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
      !number(given[a_step_seconds], info.duration_s) || !whole(given[a_samples], info.samples) ||
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

// False: it raised something that is the program's, Ctrl-C or what a signal handler raises.
bool call(const nb::object& callback, const nb::args& arguments, const nb::kwargs& named) {
  PyObject* result = PyObject_Call(callback.ptr(), arguments.ptr(), named.ptr());
  Py_XDECREF(result);
  return result != nullptr;
}

bool call_slow(const Bound& bound, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  // A child may wait for ever for what a thread of its parent had taken when it was forked.
  if (bound.monitor->process != ::getpid()) return true;
  nb::list positional;
  for (Py_ssize_t i = 0; i < count; ++i) positional.append(nb::borrow(values[i]));
  nb::kwargs named = nb::steal<nb::kwargs>(PyDict_New());
  Py_ssize_t names = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  for (Py_ssize_t i = 0; i < names; ++i) {
    PyDict_SetItem(named.ptr(), PyTuple_GetItem(keywords, i), values[count + i]);
  }
  return call(bound.slow, nb::steal<nb::args>(PyList_AsTuple(positional.ptr())), named);
}

bool call_notice(const Bound& bound, std::uint64_t step) {
  bound.monitor->notice->store(false, std::memory_order_relaxed);
  if (bound.monitor->process != ::getpid()) return true;
  return call(bound.notice, nb::steal<nb::args>(nb::make_tuple(step).release().ptr()),
              nb::steal<nb::kwargs>(PyDict_New()));
}

constexpr const char* kCapsule = "mfu.log_step";

PyObject* log_step(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* keywords) {
  auto* bound = static_cast<Bound*>(PyCapsule_GetPointer(self, kCapsule));
  Given given{};
  StepInfo info;
  bool good = true;
  if (gather(given, values, count, keywords) && plain(given, bound->shape, info)) {
    if (bound->monitor->notice->load(std::memory_order_relaxed)) {
      good = call_notice(*bound, info.step);
    }
    bound->monitor->monitor->log_step(info);
  } else {
    good = call_slow(*bound, values, count, keywords);
  }
  return good ? none() : nullptr;
}

PyObject* count_tokens(PyObject* self, PyObject* const* values, Py_ssize_t count,
                       PyObject* keywords) {
  auto* bound = static_cast<Bound*>(PyCapsule_GetPointer(self, kCapsule));
  std::uint64_t tokens = 0;
  if (count == 1 && keywords == nullptr && whole(values[0], tokens)) {
    bound->monitor->monitor->count_tokens(tokens);
    return none();
  }
  return call_slow(*bound, values, count, keywords) ? none() : nullptr;
}

PyMethodDef count_tokens_method() {
  return {"count_tokens",
          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&count_tokens)),
          METH_FASTCALL | METH_KEYWORDS,
          "count_tokens(tokens)\n--\n\nTokens that generation made, from any thread."};
}

nb::object bound_function(PyMethodDef& method, Bound* bound) {
  nb::object capsule = nb::steal(PyCapsule_New(bound, kCapsule, [](PyObject* made) {
    delete static_cast<Bound*>(PyCapsule_GetPointer(made, kCapsule));
  }));
  return nb::steal(PyCFunction_NewEx(&method, capsule.ptr(), nullptr));
}

PyMethodDef log_step_method() {
  return {"log_step", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&log_step)),
          METH_FASTCALL | METH_KEYWORDS,
          "log_step(step, epoch=None, loss=None, grad_norm=None, learning_rate=None, "
          "attention_mask=None, skip_wandb=False, *, step_seconds=None, batch=None, seq=None, "
          "tokens=None, squares=None, padded_to=None, samples=None, images=None, "
          "counted_flop=None, lengths=None)\n--\n\nOne step, logged. Raises nothing of its own."};
}

}  // namespace

nb::object log_step_function(LoopMonitor& monitor, nb::object owner, nb::object slow,
                             nb::object notice, const std::vector<std::uint64_t>& shape) {
  static PyMethodDef method = log_step_method();
  auto* bound = new Bound{&monitor, std::move(owner), std::move(slow), std::move(notice), {}};
  if (shape.size() == 5) {
    bound->shape = {.sequences = shape[0],
                    .tokens = shape[1],
                    .squares = shape[2],
                    .padded_length = shape[3],
                    .images = shape[4]};
  }
  return bound_function(method, bound);
}

nb::object count_tokens_function(LoopMonitor& monitor, nb::object owner, nb::object slow) {
  static PyMethodDef method = count_tokens_method();
  return bound_function(method, new Bound{&monitor, std::move(owner), std::move(slow), {}, {}});
}

StepInfo step_info(const nb::dict& arguments) {
  Given given{};
  const auto& names = interned_names();
  for (std::size_t i = 0; i < kArguments; ++i) {
    PyObject* value = PyDict_GetItem(arguments.ptr(), names[i]);
    given[i] = value == Py_None ? nullptr : value;
  }
  StepInfo info;
  PyObject* none = PyLong_FromLong(0);
  if (given[a_step] == nullptr) given[a_step] = none;  // of numbers that arrived later
  bool good = plain(given, {}, info);
  Py_DECREF(none);
  if (!good) throw nb::value_error("plain numbers were expected");
  return info;
}

}  // namespace mfu::python
