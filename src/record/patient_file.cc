#include "record/patient_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mfu {

namespace {

// Blocks the signal that a limit on file sizes sends, only in this thread and for this write.
class WithoutFileLimitSignal {
 public:
  WithoutFileLimitSignal() {
    sigemptyset(&limit_);
    sigaddset(&limit_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit_, &before_);
  }
  ~WithoutFileLimitSignal() {
    int error = errno;
    if (sigismember(&before_, SIGXFSZ) == 0) {
      timespec at_once{};
      sigtimedwait(&limit_, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = error;
  }
  WithoutFileLimitSignal(const WithoutFileLimitSignal&) = delete;
  WithoutFileLimitSignal& operator=(const WithoutFileLimitSignal&) = delete;

 private:
  sigset_t limit_, before_;
};

ssize_t append(int descriptor, const std::string& bytes) {
  WithoutFileLimitSignal quiet;
  ssize_t written = -1;
  do {
    written = write(descriptor, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  return written;
}

}  // namespace

PatientFile::~PatientFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

bool PatientFile::flush() {
  if (descriptor_ < 0) {
    descriptor_ = open(path_.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0644);
  }
  while (descriptor_ >= 0 && !pending_.empty()) {
    ssize_t written = append(descriptor_, pending_);
    if (written <= 0) break;
    pending_.erase(0, static_cast<std::size_t>(written));
  }
  if (descriptor_ >= 0 && pending_.empty()) {
    problem_.clear();
    return true;
  }
  problem_ = path_ + ": " + std::strerror(errno);
  return false;
}

bool PatientFile::is_new() const {
  struct stat status{};
  return pending_.empty() && (stat(path_.c_str(), &status) != 0 || status.st_size == 0);
}

std::string PatientFile::whole() const {
  std::string bytes;
  struct stat status{};
  if (descriptor_ >= 0 && fstat(descriptor_, &status) == 0) {
    bytes.resize(static_cast<std::size_t>(status.st_size));
    std::size_t done = 0;
    while (done < bytes.size()) {
      ssize_t size =
          pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
      if (size <= 0) break;
      done += static_cast<std::size_t>(size);
    }
    bytes.resize(done);
  }
  return bytes + pending_;
}

}  // namespace mfu
