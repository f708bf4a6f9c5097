// The least a gRPC server can do: answers any unary call with as many bytes as its metadata entry
// "reply-bytes" says, without looking at the request or copying anything.
#pragma once

namespace factord::bench {

// Serves until the process is killed. Prints "listening on ADDRESS".
int RunEchoServer();

}  // namespace factord::bench
