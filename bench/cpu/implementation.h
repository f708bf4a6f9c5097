// What is compared: ways of carrying out a case.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/cpu/case.h"
#include "bench/cpu/lapack.h"
#include "bench/cpu/matrices.h"

namespace factord::bench::cpu {

template <class T>
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual std::string name() const = 0;
  // What comes before a run and is not timed: writes the inputs anew.
  virtual void Prepare() = 0;
  virtual void Run() = 0;
  // Of the last run. kGeqrf: reflectors, tau; kOrgqr: Q; kOrmqr: Q^H C; kQr: Q, R.
  virtual std::vector<const Matrices<T>*> Results() const = 0;
};

// Each outlives neither its inputs nor its library.

// Ours, in the layout of the inputs.
template <class T>
std::unique_ptr<Implementation<T>> Factord(const Case& c, const Inputs<T>& inputs, int threads);

// A loop of LAPACKE's _work calls, column-major. With more than one thread: a batch is shared by
// as many loops; a matrix alone is left to the library's own threads.
template <class T>
std::unique_ptr<Implementation<T>> LapackLoop(const Case& c, const Inputs<T>& inputs,
                                              const Lapack& lapack, int threads);

// MKL's kGeqrf for many small matrices, which wants them interleaved: interleaved before it and
// taken apart after it, on the clock.
template <class T>
std::unique_ptr<Implementation<T>> MklCompact(const Case& c, const Inputs<T>& inputs,
                                              const Mkl& mkl, int threads);

// What kOrgqr and kOrmqr read is made by `lapack`.
template <class T>
Inputs<T> InputsOf(const Case& c, const Lapack& lapack);

}  // namespace factord::bench::cpu
