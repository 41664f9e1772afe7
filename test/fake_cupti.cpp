// Stands in for a CUPTI that refuses: its first function answers $FAKE_CUPTI_ANSWER, and most of the
// others are missing.
#include <cstdlib>

extern "C" {

int cuptiProfilerInitialize(void*) { return std::atoi(std::getenv("FAKE_CUPTI_ANSWER")); }
int cuptiGetResultString(int, const char** text) {
  *text = "CUPTI_ERROR_OF_THIS_TEST";
  return 0;
}

}  // extern "C"
