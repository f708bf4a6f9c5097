// The consumer's own header, by a name that factord has too.
#pragma once

namespace consumer {
constexpr int kUnknowns = 2;
}
