// Takes the monitor's settings as Python values. They are not converted to text.
#include "monitor.h"

namespace mfu::python {

namespace nb = nanobind;

namespace {

constexpr const char* kKeywords = "the keywords of mfu.Monitor";

// Keeps bytes of file names that cannot be decoded. Half of a surrogate pair, which no text can
// hold, is replaced.
std::string utf8(const nb::object& text) {
  for (const char* errors : {"surrogateescape", "replace"}) {
    nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", errors));
    if (bytes.is_valid()) {
      return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
    }
    PyErr_Clear();
  }
  return "";
}

std::string words_of(nb::handle value) {
  nb::object text = nb::steal(PyObject_Str(value.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return utf8(text);
}

class SourceMaker {
 public:
  explicit SourceMaker(ConfigSource& source, std::vector<std::string>& problems)
      : source_(source), problems_(problems) {}

  void add(const std::string& key, nb::handle value, int depth = 0) {
    if (value.is_none()) return;
    if (is_mapping(value) && depth < 16) {
      for (nb::handle each : nb::list(value.attr("items")())) {
        nb::object name = each[0], inner = each[1];
        std::string path = words_of(name);
        add(key.empty() ? path : key + "." + path, inner, depth + 1);
      }
    } else if (PyBool_Check(value.ptr())) {
      put(key, value.ptr() == Py_True ? "true" : "false", false);
    } else if (nb::hasattr(value, "__fspath__")) {
      put(key, words_of(nb::steal(PyOS_FSPath(value.ptr()))), true);
    } else if (is_mapping(value) || PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
      problems_.push_back(source_.name + ": '" + key + "' takes one value");
    } else {
      bool number = nb::hasattr(value, "__index__") || nb::hasattr(value, "__float__");
      put(key, words_of(value), !number);
    }
  }

  static bool is_mapping(nb::handle value) {
    return PyDict_Check(value.ptr()) || (nb::hasattr(value, "items") && nb::hasattr(value, "keys"));
  }

 private:
  void put(std::string key, std::string value, bool words) {
    source_.given.push_back({std::move(key), std::move(value), words});
  }
  ConfigSource& source_;
  std::vector<std::string>& problems_;
};

// Settings in a dict may be below a section, as in a file. Other sections belong to somebody else.
void add_sections(SourceMaker& maker, const nb::object& settings) {
  bool any = false;
  for (const char* root : {"monitoring", "monitor"}) {
    nb::object section = settings.attr("get")(root);
    if (section.is_none()) continue;
    any = true;
    maker.add("", section);
  }
  if (!any) maker.add("", settings);
}

void add_config(ConfigSource& source, nb::handle config, std::vector<std::string>& problems) {
  if (config.is_none()) return;
  bool path = nb::isinstance<nb::str>(config) || nb::hasattr(config, "__fspath__");
  if (path) {
    source.name = words_of(nb::steal(PyOS_FSPath(config.ptr())));
    Result<ConfigSource> file = open_monitor_config(source.name);
    if (file.has_value()) {
      source.text = std::move(file).value().text;
    } else {
      problems.push_back(file.error().message + "; settings are left at their defaults");
    }
    return;
  }
  SourceMaker maker(source, problems);
  nb::object builtins = nb::module_::import_("builtins");
  if (SourceMaker::is_mapping(config)) {
    add_sections(maker, builtins.attr("dict")(config));
  } else if (nb::hasattr(config, "__dict__") && PyCallable_Check(config.ptr()) == 0) {
    add_sections(maker, builtins.attr("dict")(config.attr("__dict__")));
  } else {
    problems.push_back("config=" + words_of(nb::steal(PyObject_Repr(config.ptr()))) +
                       ": a YAML file or a dict was expected; settings are left at their defaults");
  }
}

// An exception here becomes a problem like any other, unless it belongs to the program.
template <typename Add>
void guarded(const std::string& name, std::vector<std::string>& problems, const Add& add) {
  try {
    add();
  } catch (nb::python_error& error) {
    nb::module_::import_("mfu._manners").attr("let_through")(error.value());
    problems.push_back(
        name + ": " +
        nb::cast<std::string>(nb::module_::import_("mfu._manners").attr("said")(error.value())) +
        "; its settings are left at their defaults");
  }
}

}  // namespace

ConfigReading read_settings(const nb::dict& keywords, const nb::handle& config) {
  std::vector<std::string> problems;
  ConfigSource sources[2] = {{.name = kKeywords}, {.name = "config"}};
  guarded(kKeywords, problems, [&] { SourceMaker(sources[0], problems).add("", keywords); });
  guarded("config", problems, [&] { add_config(sources[1], config, problems); });
  ConfigReading reading = read_monitor_config(sources);
  reading.problems.insert(reading.problems.begin(), problems.begin(), problems.end());
  return reading;
}

nb::dict dict_of(const ConfigReading& settings) {
  nb::dict found;
  for (const ConfigSetting& each : settings.settings) {
    std::string key = each.key.substr(each.key.find('.') + 1);
    found[nb::cast(key)] = nb::steal(PyUnicode_DecodeUTF8(
        each.value.data(), static_cast<Py_ssize_t>(each.value.size()), "surrogateescape"));
  }
  return found;
}

}  // namespace mfu::python
