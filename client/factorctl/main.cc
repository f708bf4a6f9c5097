#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/factorctl/commands.h"

int main(int argc, char** argv) {
  factord::client::Terminal terminal{std::cout, std::cerr, isatty(STDERR_FILENO) == 1};
  return factord::client::RunFactorctl(std::vector<std::string>(argv + 1, argv + argc), &terminal);
}
