// Linked into the command and the native module of a wheel. It defines names that the static
// libraries of this compiler expect from a newer glibc, and those of udev, which hwloc asks for the
// names of disks.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN char __libc_single_threaded = 0;  // of glibc 2.32; 0 is always right, only slower

HIDDEN uint32_t arc4random(void) {  // of glibc 2.36; for std::random_device
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

HIDDEN FILE *mfu_stderr, *mfu_stdout;
HIDDEN char* mfu_program_invocation_name;
__attribute__((constructor(101))) static void take_over(void) {
  mfu_stderr = stderr;
  mfu_stdout = stdout;
  mfu_program_invocation_name = program_invocation_name;
}

struct udev;
struct udev_device;
HIDDEN struct udev* udev_new(void) {
  return NULL;
}
HIDDEN struct udev* udev_unref(struct udev* udev) {
  (void)udev;
  return NULL;
}
HIDDEN struct udev_device* udev_device_new_from_subsystem_sysname(struct udev* udev,
                                                                  const char* subsystem,
                                                                  const char* name) {
  (void)udev, (void)subsystem, (void)name;
  return NULL;
}
HIDDEN struct udev_device* udev_device_unref(struct udev_device* device) {
  (void)device;
  return NULL;
}
HIDDEN const char* udev_device_get_property_value(struct udev_device* device, const char* key) {
  (void)device, (void)key;
  return NULL;
}
