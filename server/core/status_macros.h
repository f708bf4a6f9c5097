// RETURN_IF_ERROR and ASSIGN_OR_RETURN, with the meaning of Abseil's later macros of those names.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expr)                                                                 \
  do {                                                                                        \
    if (absl::Status factord_status_ = (expr); !factord_status_.ok()) return factord_status_; \
  } while (false)

#define FACTORD_CONCAT_INNER_(a, b) a##b
#define FACTORD_CONCAT_(a, b) FACTORD_CONCAT_INNER_(a, b)
#define FACTORD_ASSIGN_OR_RETURN_(temporary, declaration, expr) \
  auto temporary = (expr);                                      \
  if (!temporary.ok()) return std::move(temporary).status();    \
  declaration = *std::move(temporary)

#define ASSIGN_OR_RETURN(declaration, expr) \
  FACTORD_ASSIGN_OR_RETURN_(FACTORD_CONCAT_(factord_statusor_, __LINE__), declaration, expr)
