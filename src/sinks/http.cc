#include "sinks/http.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/secrets.h"
#include "base/text.h"

namespace mfu {

namespace {

// These numbers are from curl/curl.h. They are part of libcurl's ABI, whose soname has been 4 since
// 2006.
constexpr int kUrl = 10002, kPostFields = 10015, kHttpHeader = 10023, kWriteData = 10001;
constexpr int kPostFieldSize = 60, kNoSignal = 99, kTimeoutMs = 155;
constexpr int kWriteFunction = 20011;
constexpr int kResponseCode = 0x200000 + 2;

struct Curl {
  void* (*easy_init)() = nullptr;
  int (*easy_setopt)(void*, int, ...) = nullptr;
  int (*easy_perform)(void*) = nullptr;
  int (*easy_getinfo)(void*, int, ...) = nullptr;
  void (*easy_cleanup)(void*) = nullptr;
  const char* (*easy_strerror)(int) = nullptr;
  void* (*slist_append)(void*, const char*) = nullptr;
  void (*slist_free_all)(void*) = nullptr;
  bool whole = false;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Curl open_curl() {
  Curl curl;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    curl.whole = find(library, "curl_easy_init", curl.easy_init) &&
                 find(library, "curl_easy_setopt", curl.easy_setopt) &&
                 find(library, "curl_easy_perform", curl.easy_perform) &&
                 find(library, "curl_easy_getinfo", curl.easy_getinfo) &&
                 find(library, "curl_easy_cleanup", curl.easy_cleanup) &&
                 find(library, "curl_easy_strerror", curl.easy_strerror) &&
                 find(library, "curl_slist_append", curl.slist_append) &&
                 find(library, "curl_slist_free_all", curl.slist_free_all);
    if (curl.whole) return curl;
  }
  return curl;
}

const Curl& curl() {
  static const Curl kCurl = open_curl();
  return kCurl;
}

struct Answer {
  std::string body;
  std::size_t most;
};

// Keeps the beginning of the body and reads the rest without keeping it.
std::size_t keep_start(char* data, std::size_t size, std::size_t count, void* to) {
  auto& answer = *static_cast<Answer*>(to);
  std::size_t room = answer.most - std::min(answer.most, answer.body.size());
  answer.body.append(data, std::min(size * count, room));
  return size * count;
}

// Makes one request. `set` adds what makes it a POST.
template <typename Set>
Posted perform(const std::string& url, const std::vector<std::string>& headers, double patience_s,
               Answer& answer, Set set) {
  const Curl& with = curl();
  std::unique_ptr<void, void (*)(void*)> handle(with.easy_init(), with.easy_cleanup);
  if (!handle) return {fail(ErrorCode::io, "libcurl gave no handle")};
  void* lines = nullptr;
  for (const std::string& header : headers) lines = with.slist_append(lines, header.c_str());
  std::unique_ptr<void, void (*)(void*)> list(lines, with.slist_free_all);
  with.easy_setopt(handle.get(), kUrl, url.c_str());
  with.easy_setopt(handle.get(), kHttpHeader, list.get());
  with.easy_setopt(handle.get(), kNoSignal, 1L);
  with.easy_setopt(handle.get(), kTimeoutMs, static_cast<long>(patience_s * 1000));
  with.easy_setopt(handle.get(), kWriteFunction, &keep_start);
  with.easy_setopt(handle.get(), kWriteData, &answer);
  set(handle.get());
  int ended = with.easy_perform(handle.get());
  if (ended != 0) {
    // Unknown protocol, bad address, unknown name, or no server: in these cases nothing was sent.
    bool sent = ended != 1 && ended != 3 && ended != 5 && ended != 6 && ended != 7;
    return {fail(ErrorCode::io, fmt::format("no answer from {}: {}", without_secrets(url),
                                            with.easy_strerror(ended))),
            sent};
  }
  long status = 0;
  with.easy_getinfo(handle.get(), kResponseCode, &status);
  if (status / 100 == 2) return {};
  return {fail(ErrorCode::io, fmt::format("{} answered {}: {}", without_secrets(url), status,
                                          printable(without_secrets(answer.body), 200))),
          status >= 500};
}

}  // namespace

Result<void> require_http() {
  if (curl().whole) return {};
  return fail(ErrorCode::unsupported,
              "libcurl is not there, so nothing can be sent (Debian: apt-get install libcurl4)");
}

Posted post(const HttpPost& request) {
  if (Result<void> there = require_http(); !there.has_value()) return {there};
  Answer answer{.body = "", .most = 512};
  return perform(request.url, request.headers, request.patience_s, answer, [&](void* handle) {
    curl().easy_setopt(handle, kPostFields, request.body.data());
    curl().easy_setopt(handle, kPostFieldSize, static_cast<long>(request.body.size()));
  });
}

Result<std::string> fetch(const std::string& url, const std::vector<std::string>& headers,
                          double patience_s) {
  MFU_TRY(require_http());
  Answer answer{.body = "", .most = 64 << 20};
  MFU_TRY(perform(url, headers, patience_s, answer, [](void*) {}).result);
  return std::move(answer.body);
}

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (char each : text) {
    bool plain = std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '-' ||
                 each == '_' || each == '.' || each == '~';
    encoded +=
        plain ? std::string(1, each) : fmt::format("%{:02X}", static_cast<unsigned char>(each));
  }
  return encoded;
}

}  // namespace mfu
