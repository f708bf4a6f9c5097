#ifndef FACTORD_CLIENT_FACTORCTL_TERMINAL_H_
#define FACTORD_CLIENT_FACTORCTL_TERMINAL_H_

#include <ostream>

namespace factord::client {

// Where a command writes: results to `out`, everything else to `err`. Tests give it string streams.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool err_is_tty = false;  // a person is watching: progress may be drawn
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_TERMINAL_H_
