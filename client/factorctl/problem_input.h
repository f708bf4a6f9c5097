#ifndef FACTORD_CLIENT_FACTORCTL_PROBLEM_INPUT_H_
#define FACTORD_CLIENT_FACTORCTL_PROBLEM_INPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace factord::client {

// A least-squares problem as the files gave it, fit to be sent: a and b have one type, and b has
// a's number of dims.
struct ProblemInput {
  Matrices a;
  Matrices b;
  bool b_is_vector = false;                // b had one dim less than a: x should have, too
  std::vector<std::string> unknown_names;  // of x's rows; empty where they have none
};

// Two files, or one CSV file with columns chosen by name or number.
struct ProblemFlags {
  std::string y;               // the column of b
  std::vector<std::string> x;  // the columns of a; empty: all but y
  bool intercept = false;
  std::string rows;  // BEGIN:END
};

// Usage errors for flags that do not fit the files; else the readers' errors.
absl::StatusOr<ProblemInput> ReadProblem(const std::vector<std::string>& paths,
                                         const ProblemFlags& flags);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_PROBLEM_INPUT_H_
