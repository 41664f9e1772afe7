#include "report/resume.hpp"

#include "report/csv.hpp"
#include "report/provenance.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace ladder {
std::vector<Record> parse_csv(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<Record> records;
  Record record;
  std::string field;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    record.text += c;
    if (quoted) {
      const bool twice = c == '"' && text.substr(i + 1).starts_with('"');
      if (twice) record.text += text[++i];
      if (c != '"' || twice) {
        field += c;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',' || c == '\n') {
      record.fields.push_back(std::exchange(field, ""));
      if (c != '\n') continue;
      const bool is_empty = std::ranges::all_of(record.fields, &std::string::empty);
      if (!is_empty) records.push_back(record);
      record = {};
    } else if (c != '\r') {
      field += c;
    }
  }
  return records;
}

EarlierRows::Fields EarlierRows::fields_of(const Row& row, const DeviceInfo& device) {
  Fields fields;
  for (auto& [column, value] : csv_cells(row, device, 0)) fields[column] = value;
  return fields;
}

EarlierRows::Key EarlierRows::key_of(const Fields& fields) {
  return {fields.at("family"),  fields.at("op"),        fields.at("dtype"),
          fields.at("problem"), fields.at("file_hash"), fields.at("cache")};
}

EarlierRows::Key EarlierRows::key_of(const Group& group) {
  return key_of(fields_of(unmeasured_row(group, *group.kernels.front()), {}));
}

void EarlierRows::refuse(const std::string& why) const {
  throw UsageError(fmt::format("--resume={}: {}", path_, why));
}

std::string EarlierRows::read_file() const {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(fmt::format("{}.", std::strerror(errno)));
  std::string text;
  std::array<char, 1 << 16> bytes;
  while (const ssize_t got = read(file, bytes.data(), bytes.size())) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(fmt::format("{}.", std::strerror(errno)));
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  close(file);
  return text;
}

EarlierRows::EarlierRows(const std::string& path) : path_(path) {
  const std::vector<Record> records = parse_csv(read_file());
  if (!records.empty() && records.front().fields.front().find(';') != std::string::npos) {
    refuse(
        "semicolons are between its fields, as spreadsheets save in some languages; save it with "
        "commas.");
  }
  if (records.empty() || records.front().fields != csv_columns()) {
    refuse("it does not have the columns that this ./bench writes.");
  }
  for (auto record = records.begin() + 1; record != records.end(); ++record) {
    if (record->fields.size() != csv_columns().size()) {
      refuse(fmt::format("line {} does not have a field for each column.",
                         record - records.begin() + 1));
    }
    EarlierRow& row = rows_.emplace_back();
    row.text = record->text;
    for (std::size_t i = 0; i < record->fields.size(); ++i) {
      row.fields[csv_columns()[i]] = record->fields[i];
    }
    const std::string& verdict = row.fields["verdict"];
    const bool stands =
        verdict == to_string(Verdict::passed) || verdict == to_string(Verdict::unsupported);
    const LabelAndCode version{row.fields["kernel"], row.fields["code"]};
    standing_.try_emplace({key_of(row.fields), version}, true).first->second &= stands;
  }
}

std::optional<std::uint64_t> EarlierRows::seed() const {
  if (rows_.empty()) return {};
  const std::string& text = rows_.front().fields.at("seed");
  for (const EarlierRow& row : rows_) {
    if (row.fields.at("seed") != text) refuse("its rows have different seeds; measure anew.");
  }
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse(fmt::format("'{}' is no seed.", text));
  }
  return seed;
}

void EarlierRows::expect_same(const Machine& machine, int processes) const {
  Row ours;
  ours.backend = machine.backend;
  const Fields here = fields_of(ours, machine.info);
  for (const EarlierRow& row : rows_) {
    for (const char* column :
         {"git_sha", "build", "flags", "backend", "device", "cc", "sms", "toolkit"}) {
      if (row.fields.at(column) == here.at(column)) continue;
      refuse(fmt::format("it has rows whose {} is '{}', here it is '{}'; measure anew.", column,
                         row.fields.at(column), here.at(column)));
    }
    const std::string& there = row.fields.at("processes");  // empty where nothing was timed
    if (!there.empty() && there != std::to_string(processes)) {
      refuse(fmt::format("its rows are of --processes={}; add that.", there));
    }
  }
}

bool EarlierRows::complete(const Group& group) const {
  const Key key = key_of(group);
  return std::all_of(group.kernels.begin(), group.kernels.end(), [&](const Kernel* kernel) {
    const auto found = standing_.find({key, LabelAndCode{label(*kernel), code_of(*kernel)}});
    return found != standing_.end() && found->second;
  });
}

std::vector<std::string> EarlierRows::without(const std::vector<Group>& groups) const {
  std::set<Key> keys;
  for (const Group& group : groups) keys.insert(key_of(group));
  std::vector<std::string> kept;
  for (const EarlierRow& row : rows_) {
    if (!keys.contains(key_of(row.fields))) kept.push_back(row.text);
  }
  return kept;
}

}  // namespace ladder
