// What is compared: ways of carrying out a case, on the default stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/gpu/case.h"
#include "bench/gpu/matrices.h"

namespace factord::bench {

template <class T>
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  // How long one run may be expected to take, in seconds; 0: not long.
  virtual double ExpectedSeconds() { return 0; }
  // What comes before a run and is not timed: where it works in place, the input is put there.
  virtual void Prepare(Operands<T>& operands) = 0;
  virtual void Run(Operands<T>& operands) = 0;
  // What lies in memory is the rows of A, not its columns.
  virtual bool ByRows() const { return false; }
};

// Ours, through RunQr; and the same replayed as a CUDA graph, without the launches' cost.
template <class T>
std::unique_ptr<Implementation<T>> Factord(const Case& c);
template <class T>
std::unique_ptr<Implementation<T>> FactordGraph(const Case& c);

// The input read once, and nothing made of it: what no way to R can beat.
template <class T>
std::unique_ptr<Implementation<T>> ReadOnce(const Case& c);

// cuBLAS and cuSOLVER, as far as they have the operation; none if built without them.
template <class T>
std::vector<std::unique_ptr<Implementation<T>>> Vendors(const Case& c);

}  // namespace factord::bench
