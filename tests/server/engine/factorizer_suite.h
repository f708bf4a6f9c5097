// The suite that every Factorizer must pass. A backend instantiates it with the ways to make one:
//   INSTANTIATE_TEST_SUITE_P(Cpu, FactorizerSuite, ::testing::Values(...), EngineName);
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "server/engine/factorizer.h"

namespace factord::testing {

struct Engine {
  std::string name;
  std::function<std::unique_ptr<Factorizer>()> make;
  std::int64_t many = 512;  // matrices of a large batch
  bool copies = true;       // inputs and results, in stages of their own
};
inline void PrintTo(const Engine& engine, std::ostream* out) { *out << engine.name; }
inline std::string EngineName(const ::testing::TestParamInfo<Engine>& info) {
  return info.param.name;
}

class FactorizerSuite : public ::testing::TestWithParam<Engine> {
 protected:
  Factorizer& factorizer() {
    if (!factorizer_) factorizer_ = GetParam().make();
    return *factorizer_;
  }

 private:
  std::unique_ptr<Factorizer> factorizer_;
};

}  // namespace factord::testing
