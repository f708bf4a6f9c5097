// The least a gRPC server can do: answers any call, once the client has sent all, with as many
// bytes as its metadata entry "reply-bytes" says, without looking at the messages or copying
// anything.
#pragma once

namespace factord::bench {

// Serves until the process is killed. Prints "listening on ADDRESS".
int RunEchoServer();

}  // namespace factord::bench
