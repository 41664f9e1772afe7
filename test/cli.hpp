// What tests of a program's command line share: an empty folder to run it in, and what it printed.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

struct Result {
  int exit_code;
  std::string out, err;
};

inline std::string slurp(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline long lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

template <class Base>
class InEmptyFolder : public Base {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "ladder_cli_XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Runs a program there; `before` comes before it on the command line.
  Result run(const std::string& program, const std::string& arguments,
             const std::string& before = "") {
    const std::string command = "cd '" + folder_ + "' && " + before + " '" + program + "' " +
                                arguments + " >out.txt 2>err.txt </dev/null";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), slurp(file("out.txt")), slurp(file("err.txt"))};
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};
