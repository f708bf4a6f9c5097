// Random numbers for names that must not meet: ids of requests, traces and spans.
#pragma once

#include <cstdint>

namespace factord {

// 64 random bits, from a generator of the calling thread that the system's entropy seeds.
std::uint64_t RandomBits();

}  // namespace factord
