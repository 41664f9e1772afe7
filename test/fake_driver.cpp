// Stands in for libcuda.so.1 and libnvidia-ml.so.1 on any machine: one GPU, whose clock can be
// locked, and with which nothing can be computed. Every lock and reset is a line of the file
// $FAKE_DRIVER_LOG; where $FAKE_DRIVER_REFUSAL is set, it is NVML's answer to a lock.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace {

constexpr const char* kGpu = "00000000:3B:00.0";
int handle;  // NVML's, by its address

void note(const char* what, unsigned mhz) {
  std::ofstream(std::getenv("FAKE_DRIVER_LOG"), std::ios::app) << what << ' ' << mhz << std::endl;
}

}  // namespace

extern "C" {

// Of the CUDA driver

int cuInit(unsigned flags) { return static_cast<int>(flags); }
int cuDeviceGet(int* device, int ordinal) {
  *device = 7;
  return ordinal == 0 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return device == 7 && std::snprintf(text, static_cast<std::size_t>(size), "%s", kGpu) < size ? 0
                                                                                               : 1;
}

// Of NVML

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = &handle;
  return std::strcmp(id, kGpu) == 0 ? 0 : 6;
}
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* mhz) {
  *mhz = 1980;
  return device == &handle && clock == 1 ? 0 : 2;
}
int nvmlDeviceSetGpuLockedClocks(void* device, unsigned least, unsigned most) {
  if (const char* refusal = std::getenv("FAKE_DRIVER_REFUSAL")) return std::atoi(refusal);
  if (device != &handle || least != most) return 2;
  note("lock", most);
  return 0;
}
int nvmlDeviceResetGpuLockedClocks(void* device) {
  if (device != &handle) return 2;
  note("reset", 0);
  return 0;
}

}  // extern "C"
