#include "report/reporters.hpp"

#include "process/memory.hpp"

#include <sstream>
#include <utility>

namespace ladder {
namespace {

using benchmark::BenchmarkReporter;

void clean(BenchmarkReporter::Run& run) {
  run.run_name.iterations.clear();
  run.run_name.time_type.clear();
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
  FileReporter(std::unique_ptr<BenchmarkReporter> inner, Write write)
      : inner_(std::move(inner)), write_(std::move(write)) {
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
    good_ = good_ && write_(text_.str());
    text_.str("");
  }

  std::unique_ptr<BenchmarkReporter> inner_;
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
    return std::make_unique<FileReporter>(std::make_unique<benchmark::JSONReporter>(),
                                          std::move(write));
  if (format == "csv") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // it is the format users ask for by name
    return std::make_unique<FileReporter>(std::make_unique<benchmark::CSVReporter>(),
                                          std::move(write));
#pragma GCC diagnostic pop
  }
  return nullptr;
}

}  // namespace ladder
