#include "report/reporters.hpp"

#include "cli/text.hpp"
#include "process/memory.hpp"

#include <fmt/format.h>

#include <sstream>
#include <string_view>
#include <utility>

namespace ladder {
namespace {

using benchmark::BenchmarkReporter;

void clean(BenchmarkReporter::Run& run) {
  run.run_name.iterations.clear();
  run.run_name.time_type.clear();
  run.cpu_accumulated_time = run.real_accumulated_time;
}

/// Google Benchmark's JSON with what its strings may not hold as they are: control characters, which it has none
/// of elsewhere but ends of lines, and bytes that are no UTF-8.
std::string strict(std::string_view json) {
  std::string text;
  for (const char c : valid_utf8(json)) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') {
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text;
}

class ConsoleReporter final : public BenchmarkReporter {
 public:
  explicit ConsoleReporter(const Console& console) : console_(console) {}
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (Run run : runs) {
      if (run.run_type != Run::RT_Aggregate || run.aggregate_unit != benchmark::kTime) continue;
      clean(run);
      console_.aggregate(run.benchmark_name(), run.real_accumulated_time);
    }
  }

 private:
  const Console& console_;
};

class FileReporter final : public BenchmarkReporter {
 public:
  FileReporter(std::unique_ptr<BenchmarkReporter> inner, bool is_json, Write write)
      : inner_(std::move(inner)), is_json_(is_json), write_(std::move(write)) {
    text_.exceptions(std::ios::badbit);
  }
  bool ReportContext(const Context& context) override {
    inner_->SetOutputStream(&text_);
    inner_->SetErrorStream(&GetErrorStream());
    const bool goes_on = inner_->ReportContext(context);
    hand_over();
    return goes_on;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> cleaned = runs;
    for (Run& run : cleaned) clean(run);
    inner_->ReportRuns(cleaned);
    hand_over();
  }
  void Finalize() override {
    inner_->Finalize();
    hand_over();
  }

 private:
  void hand_over() {
    expect_no_lack();
    good_ = good_ && write_(is_json_ ? strict(text_.str()) : text_.str());
    text_.str("");
  }

  std::unique_ptr<BenchmarkReporter> inner_;
  bool is_json_;
  Write write_;
  std::ostringstream text_;
  bool good_ = true;
};

}  // namespace

std::unique_ptr<BenchmarkReporter> console_reporter(const Console& console) {
  return std::make_unique<ConsoleReporter>(console);
}

std::unique_ptr<BenchmarkReporter> file_reporter(const std::string& format, Write write) {
  if (format == "json")
    return std::make_unique<FileReporter>(std::make_unique<benchmark::JSONReporter>(), true,
                                          std::move(write));
  if (format == "csv") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // it is the format users ask for by name
    return std::make_unique<FileReporter>(std::make_unique<benchmark::CSVReporter>(), false,
                                          std::move(write));
#pragma GCC diagnostic pop
  }
  return nullptr;
}

}  // namespace ladder
