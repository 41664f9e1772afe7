#include "reporters.hpp"

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
  explicit FileReporter(std::unique_ptr<BenchmarkReporter> inner) : inner_(std::move(inner)) {}
  bool ReportContext(const Context& context) override {
    inner_->SetOutputStream(&GetOutputStream());
    inner_->SetErrorStream(&GetErrorStream());
    return inner_->ReportContext(context);
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> cleaned = runs;
    for (Run& run : cleaned) clean(run);
    inner_->ReportRuns(cleaned);
  }
  void Finalize() override { inner_->Finalize(); }

 private:
  std::unique_ptr<BenchmarkReporter> inner_;
};

}  // namespace

std::unique_ptr<BenchmarkReporter> console_reporter(const Console& console) {
  return std::make_unique<ConsoleReporter>(console);
}

std::unique_ptr<BenchmarkReporter> file_reporter(const std::string& format) {
  if (format == "json")
    return std::make_unique<FileReporter>(std::make_unique<benchmark::JSONReporter>());
  if (format == "csv") {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \
    "-Wdeprecated-declarations"  // it is the format users ask for by name
    return std::make_unique<FileReporter>(std::make_unique<benchmark::CSVReporter>());
#pragma GCC diagnostic pop
  }
  return nullptr;
}

}  // namespace ladder
