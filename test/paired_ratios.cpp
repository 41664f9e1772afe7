// What src/harness/statistics.cpp says of samples, for statistics_agree_test.py to compare with
// scripts/ladder_statistics.py: of each line of pairs on stdin a line with the middle mean of the first of
// each, the pairs' ratio and its interval.
#include "harness/statistics.hpp"

#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::vector<double> above, below;
    for (double a, b; in >> a >> b;) {
      above.push_back(a);
      below.push_back(b);
    }
    const ladder::Estimate ratio = ladder::paired_ratio(above, below);
    std::printf("%.17g %.17g %.17g %.17g\n", ladder::middle_mean(above), ratio.value, ratio.low,
                ratio.high);
  }
}
