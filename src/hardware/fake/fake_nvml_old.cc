// The same stand-in as an old driver: what NVML gained later is missing.
#define MFU_FAKE_OLD
#include "hardware/fake/fake_nvml.cc"
