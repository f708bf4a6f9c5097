// Found instead of CUDA's own header: the emulated language and runtime.
#pragma once

#include "builtins.h"
#include "runtime.h"
#include "vectors.h"
