// The same stand-in as an old driver, without what NVML gained later.
#define MFU_FAKE_OLD
#include "hardware/fake/fake_nvml.cc"
