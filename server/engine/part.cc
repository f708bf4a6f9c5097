#include "server/engine/part.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/problem.h"

namespace factord {
namespace {

constexpr std::size_t Aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

constexpr std::size_t kDescriptorBytes = sizeof(kernels::Run<double>);
static_assert(sizeof(kernels::Run<float>) == kDescriptorBytes);

// Bucket-mates differ in nothing else that matters to a kernel.
bool ShareARun(const Spec& a, const Spec& b) {
  return a.m == b.m && a.n == b.n && a.p == b.p && a.rcond == b.rcond;
}

// kRank never comes from a device: a matrix whose status is 0 has full rank.
bool IsStaged(Operand operand) { return operand != Operand::kRank; }

std::size_t OperandBytes(const Spec& spec, Operand operand, std::int64_t count) {
  return IsStaged(operand) ? Aligned(static_cast<std::size_t>(MatrixBytes(spec, operand) * count))
                           : 0;
}

std::size_t OperandsBytes(const Spec& spec, std::int64_t count) {
  std::size_t bytes = 0;
  for (Operand operand : InputsOf(spec)) bytes += OperandBytes(spec, operand, count);
  for (Operand operand : OutputsOf(spec)) bytes += OperandBytes(spec, operand, count);
  return bytes;
}

// A part being filled.
class PartBuilder {
 public:
  std::int64_t count() const { return part_.count; }

  // Of the image, were `more` matrices added.
  std::size_t BytesWith(const Spec& spec, std::int64_t more) const {
    const bool same_run = !part_.runs.empty() && ShareARun(part_.runs.back().spec, spec);
    const std::size_t runs = part_.runs.size() + (same_run ? 0 : 1);
    const std::size_t operands =
        same_run ? closed_bytes_ + OperandsBytes(spec, part_.runs.back().count + more)
                 : closed_bytes_ + LastRunBytes() + OperandsBytes(spec, more);
    return Aligned(runs * kDescriptorBytes) +
           Aligned(static_cast<std::size_t>(part_.count + more) * sizeof(std::uint32_t)) + operands;
  }

  void Add(const Piece& piece) {
    const Spec& spec = piece.job->spec;
    if (part_.runs.empty() || !ShareARun(part_.runs.back().spec, spec)) {
      closed_bytes_ += LastRunBytes();
      part_.runs.emplace_back();
      part_.runs.back().spec = spec;
      part_.runs.back().first = part_.count;
    }
    part_.runs.back().pieces.push_back(piece);
    part_.runs.back().count += piece.count;
    part_.count += piece.count;
  }

  // Lays the image out and leaves an empty part.
  Part Take() {
    std::size_t end = Aligned(part_.runs.size() * kDescriptorBytes);
    const auto place = [&end](Part::Run& run, Operand operand) {
      run.at[static_cast<std::size_t>(operand)] = end;
      end += OperandBytes(run.spec, operand, run.count);
    };
    for (Part::Run& run : part_.runs) {
      for (Operand operand : InputsOf(run.spec)) place(run, operand);
    }
    part_.out_begin = end;
    end += Aligned(static_cast<std::size_t>(part_.count) * sizeof(std::uint32_t));
    for (Part::Run& run : part_.runs) {
      for (Operand operand : OutputsOf(run.spec)) place(run, operand);
    }
    part_.bytes = end;
    closed_bytes_ = 0;
    return std::exchange(part_, {});
  }

 private:
  std::size_t LastRunBytes() const {
    return part_.runs.empty() ? 0 : OperandsBytes(part_.runs.back().spec, part_.runs.back().count);
  }

  Part part_;
  std::size_t closed_bytes_ = 0;  // of the operands of all runs but the last
};

// How many of `count` more matrices the part may take.
std::int64_t RoomFor(const PartBuilder& part, const Spec& spec, std::int64_t count,
                     const PartLimits& limits) {
  const auto fits = [&](std::int64_t more) {
    const std::size_t bytes = part.BytesWith(spec, more);
    const std::int64_t matrices = part.count() + more;
    return limits.has_room(bytes, matrices) &&
           (bytes <= limits.enough_bytes || matrices <= limits.enough_matrices);
  };
  if (fits(count)) return count;
  std::int64_t low = 0, high = count;  // low fits, high does not
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

absl::StatusOr<std::vector<Part>> CutIntoParts(const Batch& batch, const PartLimits& limits) {
  std::vector<Part> parts;
  PartBuilder part;
  for (const auto& job : batch.jobs) {
    for (std::int64_t first = 0; first < job->count;) {
      const std::int64_t room = RoomFor(part, job->spec, job->count - first, limits);
      if (room == 0 && part.count() == 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a matrix of ", job->spec.m, " x ", job->spec.n,
                         " with its results exceeds the GPU engine's buffers"));
      }
      if (room == 0) {
        parts.push_back(part.Take());
        continue;
      }
      part.Add({job.get(), first, room});
      first += room;
    }
  }
  if (part.count() > 0) parts.push_back(part.Take());
  return parts;
}

}  // namespace factord
