// What a result must say of the machine.
#pragma once

#include "bench/result_file.h"

namespace factord::bench::cpu {

Facts MachineFacts();

}  // namespace factord::bench::cpu
