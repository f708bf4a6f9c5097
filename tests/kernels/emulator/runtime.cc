#include "runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "emulator.h"
#include "grid.h"
#include "guarded_memory.h"

struct CUstream_st {
  int device;
};
struct CUevent_st {
  int device;
  bool timing;
  std::optional<std::chrono::steady_clock::time_point> recorded;
};

namespace emulator {
namespace {

// Of the devices emulated: compute capability 9.0.
constexpr int kThreadsPerBlock = 1024;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr int kSharedPerBlock = 48 << 10;  // without cudaFuncSetAttribute
constexpr int kSharedPerBlockOptin = 227 << 10;
constexpr int kSharedPerMultiprocessor = 228 << 10;
constexpr int kSharedReserved = 1 << 10;
constexpr unsigned kGridX = 0x7fffffff, kGridYZ = 65535;
constexpr unsigned kCluster = 8, kClusterNonPortable = 16;
constexpr std::size_t kAllocationAlignment = 256;
constexpr int kVersion = 13000;

struct Function {
  int shared_bytes = kSharedPerBlock;
  bool large_clusters = false;
};

struct Device {
  std::size_t allocated = 0;
  std::optional<std::size_t> limit;
  std::optional<int> calls_left;  // until it is lost
  cudaError_t lost = cudaSuccess;
  std::map<const void*, Function> functions;
};

struct Allocation {
  int device;
  std::unique_ptr<GuardedMemory> memory;
};

using Address = std::uintptr_t;
Address AddressOf(const void* p) { return reinterpret_cast<Address>(p); }

// What all host threads share.
struct State {
  std::mutex mutex;
  Options options;
  std::map<int, Device> devices;
  std::map<Address, Allocation> allocations;
  std::map<Address, std::size_t> registered;
};
State& Shared() {
  static State* const state = new State;  // never destroyed
  return *state;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Every call for a device goes through here.
cudaError_t Reach(int device) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  if (state.options.devices == 0) return cudaErrorNoDevice;
  Device& d = state.devices[device];
  if (!d.calls_left.has_value()) return cudaSuccess;
  if (*d.calls_left == 0) return d.lost;
  --*d.calls_left;
  return cudaSuccess;
}
int DeviceOf(cudaStream_t stream) { return stream == nullptr ? current_device : stream->device; }

// The allocation that p lies in.
const Allocation* Find(const State& state, const void* p) {
  auto next = state.allocations.upper_bound(AddressOf(p));
  if (next == state.allocations.begin()) return nullptr;
  const Allocation& candidate = std::prev(next)->second;
  return candidate.memory->Contains(p, 1) ? &candidate : nullptr;
}

bool IsDeviceRange(const void* p, std::size_t bytes) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  const Allocation* const allocation = Find(state, p);
  return allocation != nullptr && allocation->memory->Contains(p, bytes);
}
// A range that begins in no allocation of a device.
bool IsHostRange(const void* p) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  return p != nullptr && Find(state, p) == nullptr;
}

cudaError_t CheckCopy(const void* to, std::size_t to_bytes, const void* from,
                      std::size_t from_bytes, cudaMemcpyKind kind) {
  if (to_bytes == 0 || from_bytes == 0) return cudaSuccess;
  bool valid = false;
  switch (kind) {
    case cudaMemcpyHostToHost:
      valid = IsHostRange(to) && IsHostRange(from);
      break;
    case cudaMemcpyHostToDevice:
      valid = IsDeviceRange(to, to_bytes) && IsHostRange(from);
      break;
    case cudaMemcpyDeviceToHost:
      valid = IsHostRange(to) && IsDeviceRange(from, from_bytes);
      break;
    case cudaMemcpyDeviceToDevice:
      valid = IsDeviceRange(to, to_bytes) && IsDeviceRange(from, from_bytes);
      break;
    case cudaMemcpyDefault:
      valid = (IsHostRange(to) || IsDeviceRange(to, to_bytes)) &&
              (IsHostRange(from) || IsDeviceRange(from, from_bytes));
      break;
    default:
      return cudaErrorInvalidMemcpyDirection;
  }
  return valid ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t Copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, int device) {
  if (const cudaError_t error = Reach(device); error != cudaSuccess) return error;
  if (const cudaError_t error = CheckCopy(to, bytes, from, bytes, kind); error != cudaSuccess)
    return error;
  if (bytes != 0) std::memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t Copy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind, int device) {
  if (const cudaError_t error = Reach(device); error != cudaSuccess) return error;
  if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
  if (width == 0 || height == 0) return cudaSuccess;
  const cudaError_t error =
      CheckCopy(to, (height - 1) * to_pitch + width, from, (height - 1) * from_pitch + width, kind);
  if (error != cudaSuccess) return error;
  for (std::size_t i = 0; i < height; ++i) {
    std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                static_cast<const std::byte*>(from) + i * from_pitch, width);
  }
  return cudaSuccess;
}

cudaError_t Set(void* p, int value, std::size_t bytes, int device) {
  if (const cudaError_t error = Reach(device); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (!IsDeviceRange(p, bytes)) return cudaErrorInvalidValue;
  std::memset(p, value, bytes);
  return cudaSuccess;
}

cudaError_t AllocateHost(void** p, std::size_t bytes) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return error;
  constexpr std::size_t kPage = 4096;
  *p = std::aligned_alloc(kPage, std::max((bytes + kPage - 1) / kPage, std::size_t{1}) * kPage);
  if (*p == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*p, 0xFF, bytes);
  return cudaSuccess;
}

// Blocks of a kernel that a multiprocessor holds, as far as threads and shared memory decide.
int BlocksPerMultiprocessor(int threads, std::size_t shared_bytes) {
  if (threads < 1 || threads > kThreadsPerBlock || shared_bytes > kSharedPerBlockOptin) return 0;
  const int rounded = (threads + kWarpSize - 1) / kWarpSize * kWarpSize;
  const int by_shared = kSharedPerMultiprocessor / static_cast<int>(shared_bytes + kSharedReserved);
  return std::min({kThreadsPerMultiprocessor / rounded, by_shared, kBlocksPerMultiprocessor});
}

cudaError_t ReadAttributes(const cudaLaunchConfig_t& config, Launch& launch) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttributeValue& value = config.attrs[i].val;
    switch (config.attrs[i].id) {
      case cudaLaunchAttributeIgnore:
        break;
      case cudaLaunchAttributeCooperative:
        launch.cooperative = value.cooperative != 0;
        break;
      case cudaLaunchAttributeClusterDimension:
        if (value.clusterDim.y != 1 || value.clusterDim.z != 1) return cudaErrorNotSupported;
        launch.cluster = value.clusterDim.x;
        break;
      default:
        return cudaErrorNotSupported;
    }
  }
  return cudaSuccess;
}

cudaError_t CheckLaunch(const Launch& launch, const Function& function) {
  const dim3 grid = launch.grid, block = launch.block;
  if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > kGridX || grid.y > kGridYZ ||
      grid.z > kGridYZ) {
    return cudaErrorInvalidConfiguration;
  }
  if (block.x < 1 || block.y < 1 || block.z < 1 || block.x > kThreadsPerBlock ||
      block.y > kThreadsPerBlock || block.z > 64 ||
      block.x * block.y * block.z > kThreadsPerBlock) {
    return cudaErrorInvalidConfiguration;
  }
  if (launch.shared_bytes > static_cast<std::size_t>(function.shared_bytes))
    return cudaErrorInvalidValue;
  const unsigned largest = function.large_clusters ? kClusterNonPortable : kCluster;
  if (launch.cluster < 1 || launch.cluster > largest || grid.x % launch.cluster != 0)
    return cudaErrorInvalidClusterSize;
  if (launch.cooperative) {
    const int per_multiprocessor =
        BlocksPerMultiprocessor(static_cast<int>(block.x * block.y * block.z), launch.shared_bytes);
    const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    if (blocks > static_cast<std::uint64_t>(per_multiprocessor) * launch.options.multiprocessors) {
      return cudaErrorCooperativeLaunchTooLarge;
    }
  }
  return cudaSuccess;
}

}  // namespace

void SetOptions(const Options& options) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  state.options = options;
  for (auto& [number, device] : state.devices) {
    device.limit.reset();
    device.calls_left.reset();
  }
}

Options GetOptions() {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  return state.options;
}

void FailAfter(int device, int calls, cudaError_t error) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  state.devices[device].calls_left = calls;
  state.devices[device].lost = error;
}

void LimitMemory(int device, std::size_t bytes) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  state.devices[device].limit = bytes;
}

std::size_t AllocatedBytes(int device) {
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  return state.devices[device].allocated;
}

cudaError_t LaunchKernel(const cudaLaunchConfig_t& config, const void* function,
                         const std::function<void()>& thread) {
  const int device = current_device;
  if (const cudaError_t error = Reach(device); error != cudaSuccess) return Return(error);
  if (DeviceOf(config.stream) != device) return Return(cudaErrorInvalidResourceHandle);
  Launch launch;
  launch.grid = config.gridDim;
  launch.block = config.blockDim;
  launch.shared_bytes = config.dynamicSmemBytes;
  launch.thread = &thread;
  if (const cudaError_t error = ReadAttributes(config, launch); error != cudaSuccess)
    return Return(error);
  Function attributes;
  {
    State& state = Shared();
    const std::lock_guard lock(state.mutex);
    launch.options = state.options;
    attributes = state.devices[device].functions[function];
  }
  if (const cudaError_t error = CheckLaunch(launch, attributes); error != cudaSuccess)
    return Return(error);
  Run(launch);
  return cudaSuccess;
}

}  // namespace emulator

using namespace emulator;

// ---- errors

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorIllegalInstruction, "cudaErrorIllegalInstruction",
     "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorInvalidClusterSize, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const ErrorText* Find(cudaError_t error) {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors),
                   [error](const ErrorText& known) { return known.error == error; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* const known = Find(error);
  return known == nullptr ? "unrecognized error code" : known->name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* const known = Find(error);
  return known == nullptr ? "unrecognized error code" : known->text;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

// ---- devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = GetOptions().devices;
  return Return(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const int devices = GetOptions().devices;
  if (devices == 0) return Return(cudaErrorNoDevice);
  if (device < 0 || device >= devices) return Return(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Options options = GetOptions();
  if (device < 0 || device >= options.devices) return Return(cudaErrorInvalidDevice);
  cudaDeviceProp p = {};
  std::snprintf(p.name, sizeof p.name, "emulated");
  p.totalGlobalMem = options.memory_bytes;
  p.sharedMemPerBlock = kSharedPerBlock;
  p.sharedMemPerBlockOptin = kSharedPerBlockOptin;
  p.sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  p.reservedSharedMemPerBlock = kSharedReserved;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = kWarpSize;
  p.maxThreadsPerBlock = kThreadsPerBlock;
  p.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  p.maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = kThreadsPerBlock;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = kGridX;
  p.maxGridSize[1] = p.maxGridSize[2] = kGridYZ;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = options.multiprocessors;
  p.l2CacheSize = 50 << 20;
  p.asyncEngineCount = 3;
  p.concurrentKernels = p.cooperativeLaunch = p.clusterLaunch = p.unifiedAddressing = p.ECCEnabled =
      1;
  p.pciBusID = device + 1;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrPciBusId:
      *value = p.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = p.pciDeviceID;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrPciDomainId:
      *value = p.pciDomainID;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrCooperativeLaunch:
      *value = p.cooperativeLaunch;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = p.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = static_cast<int>(p.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrClusterLaunch:
      *value = p.clusterLaunch;
      break;
    default:
      return Return(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess)
    return error;
  const int needed =
      std::snprintf(id, static_cast<std::size_t>(length), "%04x:%02x:%02x.0",
                    static_cast<unsigned>(p.pciDomainID), static_cast<unsigned>(p.pciBusID),
                    static_cast<unsigned>(p.pciDeviceID));
  return Return(needed < length ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() { return Return(Reach(current_device)); }

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  const Device& device = state.devices[current_device];
  const std::size_t limit = device.limit.value_or(state.options.memory_bytes);
  *free = limit - std::min(device.allocated, limit);
  *total = state.options.memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

// ---- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  *stream = new CUstream_st{current_device};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const int device = stream->device;
  delete stream;
  return Return(Reach(device));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return Return(Reach(DeviceOf(stream))); }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return Return(Reach(DeviceOf(stream))); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return Return(cudaErrorInvalidResourceHandle);
  return Return(Reach(DeviceOf(stream)));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  *event = new CUevent_st{current_device, (flags & cudaEventDisableTiming) == 0, std::nullopt};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr || event->device != DeviceOf(stream))
    return Return(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = Reach(event->device); error != cudaSuccess) return Return(error);
  event->recorded = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return Return(cudaErrorInvalidResourceHandle);
  return Return(Reach(event->device));
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (event == nullptr || !event->timing || !event->recorded)
      return Return(cudaErrorInvalidResourceHandle);
    if (const cudaError_t error = Reach(event->device); error != cudaSuccess) return Return(error);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(*end->recorded - *start->recorded).count();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return Return(cudaErrorInvalidResourceHandle);
  const int device = event->device;
  delete event;
  return Return(Reach(device));
}

// ---- memory

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  Device& device = state.devices[current_device];
  const std::size_t limit = device.limit.value_or(state.options.memory_bytes);
  if (bytes > limit || device.allocated > limit - bytes) return Return(cudaErrorMemoryAllocation);
  auto memory = std::make_unique<GuardedMemory>(bytes);
  *p = memory->data();
  static_assert(GuardedMemory::kAlignment % kAllocationAlignment == 0);
  device.allocated += bytes;
  state.allocations[AddressOf(*p)] = {current_device, std::move(memory)};
  return cudaSuccess;
}

// Frees the memory of a lost device too, but returns its error.
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return Return(Reach(current_device));
  State& state = Shared();
  std::unique_lock lock(state.mutex);
  const auto found = state.allocations.find(AddressOf(p));
  if (found == state.allocations.end()) return Return(cudaErrorInvalidValue);
  const Allocation allocation = std::move(found->second);
  state.allocations.erase(found);
  state.devices[allocation.device].allocated -= allocation.memory->size();
  lock.unlock();
  if (const auto damage = allocation.memory->Damage()) {
    Fail("device memory of %zu bytes was written outside, at byte %td", allocation.memory->size(),
         *damage);
  }
  return Return(Reach(allocation.device));
}

cudaError_t cudaMallocHost(void** p, std::size_t bytes, unsigned) {
  return Return(AllocateHost(p, bytes));
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  return Return(AllocateHost(p, bytes));
}
cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return Return(Reach(current_device));
}

cudaError_t cudaHostRegister(void* p, std::size_t bytes, unsigned) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  if (p == nullptr || bytes == 0) return Return(cudaErrorInvalidValue);
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  const auto next = state.registered.lower_bound(AddressOf(p));
  const bool overlaps_next = next != state.registered.end() && next->first - AddressOf(p) < bytes;
  const bool overlaps_last = next != state.registered.begin() &&
                             AddressOf(p) - std::prev(next)->first < std::prev(next)->second;
  if (overlaps_next || overlaps_last) return Return(cudaErrorHostMemoryAlreadyRegistered);
  state.registered[AddressOf(p)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* p) {
  {
    State& state = Shared();
    const std::lock_guard lock(state.mutex);
    if (state.registered.erase(AddressOf(p)) == 0) return Return(cudaErrorHostMemoryNotRegistered);
  }
  return Return(Reach(current_device));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return Return(Copy(to, from, bytes, kind, current_device));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Return(Copy(to, from, bytes, kind, DeviceOf(stream)));
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return Return(Copy2D(to, to_pitch, from, from_pitch, width, height, kind, current_device));
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return Return(Copy2D(to, to_pitch, from, from_pitch, width, height, kind, DeviceOf(stream)));
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  return Return(Set(p, value, bytes, current_device));
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  return Return(Set(p, value, bytes, DeviceOf(stream)));
}

// ---- functions

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  State& state = Shared();
  const std::lock_guard lock(state.mutex);
  Function& f = state.devices[current_device].functions[function];
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || value > kSharedPerBlockOptin) return Return(cudaErrorInvalidValue);
      f.shared_bytes = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      f.large_clusters = value != 0;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      return cudaSuccess;
  }
  return Return(cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          std::size_t shared_bytes) {
  if (const cudaError_t error = Reach(current_device); error != cudaSuccess) return Return(error);
  *blocks = BlocksPerMultiprocessor(threads, shared_bytes);
  return cudaSuccess;
}
