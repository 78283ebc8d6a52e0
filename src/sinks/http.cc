#include "sinks/http.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/secrets.h"
#include "base/text.h"

namespace mfu {

namespace {

// From curl/curl.h, whose numbers are part of libcurl's ABI (its soname is 4 since 2006).
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

// Keeps what an error message can use, and takes the rest.
std::size_t keep_start(char* data, std::size_t size, std::size_t count, void* to) {
  auto& text = *static_cast<std::string*>(to);
  if (text.size() < 512) text.append(data, std::min<std::size_t>(size * count, 512));
  return size * count;
}

}  // namespace

Result<void> require_http() {
  if (curl().whole) return {};
  return fail(ErrorCode::unsupported,
              "libcurl is not there, so nothing can be sent (Debian: apt-get install libcurl4)");
}

Result<void> post(const HttpPost& request) {
  MFU_TRY(require_http());
  const Curl& with = curl();
  std::unique_ptr<void, void (*)(void*)> handle(with.easy_init(), with.easy_cleanup);
  if (!handle) return fail(ErrorCode::io, "libcurl gave no handle");
  void* headers = nullptr;
  for (const std::string& header : request.headers) {
    headers = with.slist_append(headers, header.c_str());
  }
  std::unique_ptr<void, void (*)(void*)> list(headers, with.slist_free_all);
  std::string answer;
  with.easy_setopt(handle.get(), kUrl, request.url.c_str());
  with.easy_setopt(handle.get(), kHttpHeader, list.get());
  with.easy_setopt(handle.get(), kPostFields, request.body.data());
  with.easy_setopt(handle.get(), kPostFieldSize, static_cast<long>(request.body.size()));
  with.easy_setopt(handle.get(), kNoSignal, 1L);
  with.easy_setopt(handle.get(), kTimeoutMs, static_cast<long>(request.patience_s * 1000));
  with.easy_setopt(handle.get(), kWriteFunction, &keep_start);
  with.easy_setopt(handle.get(), kWriteData, &answer);
  int ended = with.easy_perform(handle.get());
  if (ended != 0) {
    return fail(ErrorCode::io, fmt::format("cannot post to {}: {}", without_secrets(request.url),
                                           with.easy_strerror(ended)));
  }
  long status = 0;
  with.easy_getinfo(handle.get(), kResponseCode, &status);
  if (status / 100 == 2) return {};
  return fail(ErrorCode::io, fmt::format("{} answered {}: {}", without_secrets(request.url), status,
                                         printable(without_secrets(answer), 200)));
}

}  // namespace mfu
