// What happens to one matrix, for each operation: three steps, timed apart. An operation object
// owns a place in a workspace for one matrix of its Spec and is used for any number of them in
// turn.
//
//   Pack     reads the inputs, scales them; false: a NaN or an Inf is among them
//   Compute  does the arithmetic
//   Unpack   writes every output; returns what is wrong with the matrix, if anything
#pragma once

#include <cstdint>
#include <optional>

#include "server/core/job.h"
#include "server/engine/column_scaling.h"
#include "server/engine/least_squares.h"
#include "server/engine/reflectors.h"
#include "server/engine/team.h"

namespace factord {

// Every output of matrix i becomes NaN; its rank -1.
void WriteNonfinite(const Job& job, std::int64_t i);

template <class T>
class FactorizeOperation {
 public:
  FactorizeOperation(const Spec& spec, Workspace& workspace);
  bool Pack(const Job& job, std::int64_t i, const Team& team);
  void Compute(const Team& team);
  std::optional<MatrixCode> Unpack(const Job& job, std::int64_t i, const Team& team);

 private:
  void ChooseSigns();
  // Columns j0 to j0 + cols - 1 of R, unscaled and with their rows' signs, in place; false: an
  // entry overflowed.
  bool FinishR(std::int64_t j0, std::int64_t cols);

  const Spec& spec_;
  Reflectors<T> reflectors_;
  MatrixView<T> Q_;
  std::int32_t* e_;  // n: A's column j was scaled by 2^-e_j
  Real<T>* flip_;    // m: +1 or -1, of Q's column i and R's row i
};

template <class T>
class FormQOperation {
 public:
  FormQOperation(const Spec& spec, Workspace& workspace);
  bool Pack(const Job& job, std::int64_t i, const Team& team);
  void Compute(const Team& team);
  std::optional<MatrixCode> Unpack(const Job& job, std::int64_t i, const Team& team);

 private:
  Reflectors<T> reflectors_;
  MatrixView<T> Q_;
};

template <class T>
class ApplyQOperation {
 public:
  ApplyQOperation(const Spec& spec, Workspace& workspace);
  bool Pack(const Job& job, std::int64_t i, const Team& team);
  void Compute(const Team& team);
  std::optional<MatrixCode> Unpack(const Job& job, std::int64_t i, const Team& team);

 private:
  // On the right C op(Q) = (op(Q)^H C^H)^H: the same work on C^H.
  template <class U>
  Strided<U> LeftHandView(U* c) const;

  const Spec& spec_;
  Reflectors<T> reflectors_;
  MatrixView<T> C_;  // m x p: C, or C^H
  std::int32_t* e_;  // p
};

template <class T>
class SolveOperation {
 public:
  SolveOperation(const Spec& spec, Workspace& workspace);
  bool Pack(const Job& job, std::int64_t i, const Team& team);
  void Compute(const Team& team);
  std::optional<MatrixCode> Unpack(const Job& job, std::int64_t i, const Team& team);

 private:
  LeastSquares<T> problem_;
};

}  // namespace factord
