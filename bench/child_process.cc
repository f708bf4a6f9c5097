#include "bench/child_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace factord::bench {

ChildProcess::ChildProcess(const std::vector<std::string>& command) {
  int out[2];
  if (pipe(out) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(out[1], STDOUT_FILENO);
    close(out[0]);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    std::perror(argv[0]);
    std::_Exit(127);
  }
  close(out[1]);
  FILE* lines = fdopen(out[0], "r");
  char line[512];
  constexpr char kPrefix[] = "listening on ";
  while (address_.empty() && std::fgets(line, sizeof(line), lines) != nullptr) {
    const std::string text = line;
    if (text.rfind(kPrefix, 0) == 0)
      address_ = text.substr(sizeof(kPrefix) - 1, text.size() - sizeof(kPrefix));
  }
  if (address_.empty()) {
    std::fprintf(stderr, "%s did not start\n", command[0].c_str());
    std::exit(1);
  }
}

ChildProcess::~ChildProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

}  // namespace factord::bench
