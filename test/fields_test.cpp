// The fields of a problem: their text, --help, and files among them.
#include "harness/fields.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ladder {
namespace {

using testing::HasSubstr;

enum class Order { random, sorted };

struct Numbers {
  int batch = 0, heads = 0, kv_heads = 0, shortest = 0, length = 0, page = 0;
  float epsilon = 0;
  bool upper = false;
  Order order{};
};

std::vector<Field> number_fields() {
  return {size<&Numbers::batch>("BATCH").from(1).to(64),
          size<&Numbers::heads>("HEADS"),
          size<&Numbers::kv_heads>("KV_HEADS").after(":").unless<&Numbers::heads>(),
          size<&Numbers::shortest>("SHORTEST").unless(-1).behind_it(".."),
          size<&Numbers::length>("LENGTH").multiple_of(2),
          real<&Numbers::epsilon>("@eps").unless(0.5),
          flag<&Numbers::upper>("@upper"),
          size<&Numbers::page>("@page").among({16, 64}).unless(0),
          word<&Numbers::order>("ORDER", {"random", "sorted"})};
}

std::string written(const Numbers& numbers) {
  return text_of(field_texts(number_fields(), &numbers));
}

TEST(Fields, AreReadAsTheyAreWritten) {
  const std::vector<Field> all = number_fields();
  for (const char* text : {"1x2x4", "64x8:2x4", "2x3x0..8", "1x2x4@eps0.25", "1x2x4@upper",
                           "1x2:1x3..4@eps1e-06@upper@page64@sorted"}) {
    Numbers numbers;
    EXPECT_TRUE(parse_fields(all, text, &numbers)) << text;
    EXPECT_EQ(written(numbers), text);
  }
  Numbers numbers;
  ASSERT_TRUE(parse_fields(all, "7x08:8x4@eps.5@random", &numbers));
  EXPECT_EQ(written(numbers), "7x8x4") << "what is usual is left out";
  EXPECT_EQ(numbers.shortest, -1);
  EXPECT_EQ(values_text(all, &numbers),
            "BATCH=7 HEADS=8 KV_HEADS=8 SHORTEST=-1 LENGTH=4 eps=0.5 upper=0 page=0 ORDER=random");
}

TEST(Fields, OfWhatIsNoProblemAreRefused) {
  for (const char* text : {"",
                           "1",
                           "1x2",
                           "1x2x",
                           "0x2x4",
                           "65x2x4",
                           "1x2x3",
                           "1x2x4x5",
                           "1x2:x4",
                           "1x2x4..",
                           "1x2x..4",
                           "1x2x4@",
                           "1x2x4@page",
                           "1x2x4@page32",
                           "1x2x4@eps",
                           "1x2x4@eps-1",
                           "1x2x4@eps0",
                           "1x2x4@epsnan",
                           "1x2x4@eps1e-40",
                           "1x2x4@page16@upper",
                           "1x2x4@downward",
                           "-1x2x4",
                           "+1x2x4",
                           " 1x2x4",
                           "1x2x4 ",
                           "1x1073741826x4",
                           "1x99999999999999999999x4"}) {
    Numbers numbers;
    EXPECT_FALSE(parse_fields(number_fields(), text, &numbers)) << text;
  }
}

TEST(Fields, AreExplained) {
  EXPECT_EQ(
      help_of(number_fields()),
      "BATCHxHEADS[:KV_HEADS]x[SHORTEST..]LENGTH[@epsN][@upper][@pageN][@random|sorted], BATCH "
      "from 1 up to 64, HEADS, KV_HEADS, SHORTEST up to 2^30, LENGTH a multiple of 2 up to "
      "2^30, @pageN 16 or 64");
  EXPECT_EQ(help_of({size<&Numbers::batch>("ROWS").unless(1).behind_it("x"),
                     size<&Numbers::heads>("COLS")}),
            "[ROWSx]COLS, each up to 2^30");
}

struct Lines {
  std::vector<std::string> all;
};
struct OfFile {
  DataFile<Lines> file;
  int n = 0;
};

class Files : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder / "other"); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const char* name, const char* text) const {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  static std::vector<Field> fields() {
    const auto read = [](const std::string& bytes) {
      ++times_read;
      if (bytes.empty()) throw std::runtime_error("it has no lines");
      return Lines{{bytes}};
    };
    return {file<&OfFile::file>("FILE.txt", read), size<&OfFile::n>("@n").unless(1)};
  }
  static std::string mistake(const std::string& text) {
    OfFile problem;
    try {
      parse_fields(fields(), text, &problem);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  static inline int times_read = 0;
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("fields_test." + std::to_string(getpid()));
};

TEST_F(Files, AreReadOnceAndKnownByTheirName) {
  const std::string path = write("a.txt", "one");
  OfFile first, second;
  ASSERT_TRUE(parse_fields(fields(), path + "@n3", &first));
  EXPECT_EQ(first.file.data->all, std::vector<std::string>{"one"});
  EXPECT_EQ(text_of(field_texts(fields(), &first)), "a.txt@n3");
  ASSERT_TRUE(parse_fields(fields(), "a.txt", &second)) << "as in a benchmark's name";
  EXPECT_EQ(second.file.data, first.file.data);
  EXPECT_EQ(times_read, 1);
  EXPECT_EQ(hashes_text(fields(), &first), hashes_text(fields(), &second));
  EXPECT_EQ(hashes_text(fields(), &first).size(), 16);
  EXPECT_NE(hash_of("one"), hash_of("two"));
}

TEST_F(Files, ThatAreNoneAreNamed) {
  EXPECT_THAT(mistake((folder / "missing.txt").string()), HasSubstr("missing.txt can't be read"));
  EXPECT_THAT(mistake(folder.string()), HasSubstr("can't be read"));
  EXPECT_THAT(mistake(write("empty.txt", "")), HasSubstr("empty.txt: it has no lines"));
  EXPECT_EQ(mistake(write("b.txt", "one")), "");
  EXPECT_THAT(mistake(write("other/b.txt", "two")), HasSubstr("rename one of them"));
}

}  // namespace
}  // namespace ladder
