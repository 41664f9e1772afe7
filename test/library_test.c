/* libkernel_ladder.so from a program in C: kernels of the host executor on this program's memory, and
 * what is wrong with a call said in a sentence. */
#include "kernel_ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      ++failures;                                                                              \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              kl_last_error());                                                                \
    }                                                                                          \
  } while (0)

#define EXPECT_REFUSED(call, status, words)                \
  do {                                                     \
    EXPECT((call) == (status));                            \
    EXPECT(strstr(kl_last_error(), (words)) != NULL);      \
    EXPECT(strchr(kl_last_error(), '\n') == NULL);         \
  } while (0)

static size_t found(const char* name) {
  size_t kernel = (size_t)-1;
  EXPECT(kl_find(name, KL_HOST, &kernel) == KL_OK);
  return kernel;
}

static void every_kernel_is_described_and_found(void) {
  size_t on_host = 0;
  for (size_t i = 0; i < kl_kernel_count(); ++i) {
    kl_kernel one;
    size_t again = (size_t)-1;
    EXPECT(kl_describe(i, &one) == KL_OK);
    EXPECT(strncmp(one.name, one.family, strlen(one.family)) == 0);
    EXPECT(strlen(one.version) > 3 && one.version[0] == 'v' && strlen(one.idea) > 0);
    EXPECT(strcmp(strrchr(one.name, '/') + 1, one.version) == 0);
    EXPECT(kl_find(one.name, one.backend, &again) == KL_OK && again == i);
    on_host += one.backend == KL_HOST;
  }
  EXPECT(on_host > 100);
}

static void a_transpose(void) {
  enum { kRows = 33, kCols = 70 };
  static float in[kRows * kCols], out[kRows * kCols];
  kl_launcher* launcher = NULL;
  kl_array array;
  size_t workspace = 1;
  void* arrays[] = {in, out, NULL};
  void* incomplete[] = {in, NULL};
  for (int i = 0; i < kRows * kCols; ++i) in[i] = (float)i;
  EXPECT(kl_open(found("transpose/f32/v03_padded"), "33x70", &launcher) == KL_OK);
  EXPECT(kl_array_count(launcher) == 2);
  EXPECT(kl_describe_array(launcher, 0, &array) == KL_OK && array.elements == kRows * kCols);
  EXPECT(array.role == KL_INPUT);
  EXPECT(kl_describe_array(launcher, 1, &array) == KL_OK && array.bytes == sizeof out);
  EXPECT(array.role == KL_OUTPUT && strcmp(array.dtype, "f32") == 0);
  EXPECT_REFUSED(kl_describe_array(launcher, 2, &array), KL_INVALID, "has 2");
  EXPECT_REFUSED(kl_launch(launcher, NULL), KL_INVALID, "kl_bind");
  EXPECT_REFUSED(kl_bind(launcher, arrays, 3, &workspace), KL_INVALID, "takes 2 arrays");
  EXPECT_REFUSED(kl_bind(launcher, incomplete, 2, &workspace), KL_INVALID, "out, is NULL");
  EXPECT_REFUSED(kl_bind(launcher, NULL, 2, &workspace), KL_INVALID, "arrays is NULL");
  EXPECT(kl_bind(launcher, arrays, 2, &workspace) == KL_OK && workspace == 0);
  EXPECT(kl_launch(launcher, NULL) == KL_OK);
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) EXPECT(out[c * kRows + r] == in[r * kCols + c]);
  }
  kl_close(launcher);
}

static void counts_of_a_launch(void) {
  enum { kRows = 64, kCols = 96, kSectors = kRows * kCols * 4 / 32 };
  static float in[kRows * kCols], out[kRows * kCols];
  kl_launcher* launcher = NULL;
  size_t workspace = 1;
  void* arrays[] = {in, out};
  kl_counts counts;
  kl_status status;
  EXPECT(kl_open(found("transpose/f32/v01_naive"), "64x96", &launcher) == KL_OK);
  EXPECT_REFUSED(kl_count(launcher, &counts), KL_INVALID, "no arrays are bound");
  EXPECT(kl_bind(launcher, arrays, 2, &workspace) == KL_OK);
  EXPECT_REFUSED(kl_count(launcher, NULL), KL_INVALID, "counts is NULL");
  in[1] = 5;
  status = kl_count(launcher, &counts);
  if (status == KL_UNSUPPORTED) { /* under AddressSanitizer */
    kl_close(launcher);
    return;
  }
  EXPECT(status == KL_OK && out[kRows] == 5);
  EXPECT(counts.global_ld_sectors == kSectors && counts.global_ld_ideal == kSectors);
  EXPECT(counts.global_st_requests == counts.global_ld_requests);
  EXPECT(counts.global_st_sectors == 8 * kSectors && counts.global_st_ideal == kSectors);
  EXPECT(counts.shared_ld_requests == 0 && counts.barriers == 0);
  EXPECT(counts.moved_bytes == 32ull * 9 * kSectors);
  kl_close(launcher);
}

/* Its result is of another type than its elements, and it needs scratch memory and state, which a launch
 * leaves as it found it, for the next one. */
static void an_argmax_of_bound_after_bound_arrays(void) {
  enum { kCount = 100000 };
  static _Alignas(256) unsigned char state[256];
  float* x[2];
  long long y = -1; /* i64 */
  kl_launcher* launcher = NULL;
  kl_array array;
  EXPECT(kl_open(found("reduction/argmax/f32/v30_argmax"), "100000", &launcher) == KL_OK);
  EXPECT(kl_describe_array(launcher, 1, &array) == KL_OK);
  EXPECT(strcmp(array.dtype, "i64") == 0 && array.bytes == sizeof y);
  EXPECT(kl_state_bytes(launcher) > 0 && kl_state_bytes(launcher) <= sizeof state);
  EXPECT_REFUSED(kl_plan(launcher, 24, 0), KL_INVALID, "a power of two");
  EXPECT(kl_plan(launcher, 256, 0) == KL_OK);
  for (int i = 0; i < 2; ++i) {
    const int largest = i == 0 ? 77777 : 12345;
    void* arrays[2] = {NULL, &y};
    size_t bytes = 0;
    void* scratch;
    arrays[0] = x[i] = calloc(kCount, sizeof(float));
    x[i][largest] = 1;
    EXPECT(kl_bind(launcher, arrays, 2, &bytes) == KL_OK && bytes > 0);
    EXPECT_REFUSED(kl_launch(launcher, NULL), KL_INVALID, "scratch memory");
    scratch = aligned_alloc(256, (bytes + 255) / 256 * 256);
    EXPECT(kl_set_workspace(launcher, scratch) == KL_OK);
    if (i == 0) {
      EXPECT_REFUSED(kl_launch(launcher, NULL), KL_INVALID, "kl_set_state");
      EXPECT_REFUSED(kl_set_state(launcher, NULL), KL_INVALID, "state is NULL");
      EXPECT(kl_set_state(launcher, state) == KL_OK);
    }
    EXPECT(kl_launch(launcher, NULL) == KL_OK && y == largest);
    for (size_t at = 0; at < sizeof state; ++at) EXPECT(state[at] == 0);
    free(scratch);
    free(x[i]);
  }
  kl_close(launcher);
}

static void the_best_version_is_the_suites_to_say(void) {
  size_t kernel = 0;
  kl_kernel one;
  EXPECT(kl_best("softmax", "bf16", KL_HOST, "8x100", &kernel) == KL_OK);
  EXPECT(kl_describe(kernel, &one) == KL_OK && strncmp(one.name, "softmax/bf16/v10d_", 18) == 0);
  EXPECT(kl_best("attention", "f16", KL_HOST, "1x8:1x1:40x64", &kernel) == KL_OK);
  EXPECT(kl_describe(kernel, &one) == KL_OK && strncmp(one.version, "v56_", 4) == 0);
  /* The family's best is for bf16 alone. */
  EXPECT(kl_best("gemm_tensor/nn", "f16", KL_HOST, "16x16x16", &kernel) == KL_OK);
  EXPECT(kl_describe(kernel, &one) == KL_OK && !one.is_baseline);
  EXPECT_REFUSED(kl_best("softmax/none", "f32", KL_HOST, "8x8", &kernel), KL_INVALID, "softmax/none");
  EXPECT_REFUSED(kl_best("softmax", "f128", KL_HOST, "8x8", &kernel), KL_INVALID, "f128");
  EXPECT_REFUSED(kl_best("softmax", "f32", KL_HOST, "8", &kernel), KL_INVALID, "ROWSxCOLS");
  EXPECT_REFUSED(kl_best("softmax", "i32", KL_HOST, "8x8", &kernel), KL_UNSUPPORTED, "dtype");
}

static void what_is_wrong_is_said(void) {
  size_t kernel = 0;
  kl_kernel description;
  kl_launcher* launcher = NULL;
  EXPECT_REFUSED(kl_find("softmax/f32/v99_none", KL_HOST, &kernel), KL_INVALID, "v99_none");
  EXPECT_REFUSED(kl_find(NULL, KL_HOST, &kernel), KL_INVALID, "NULL");
  EXPECT_REFUSED(kl_describe(kl_kernel_count(), &description), KL_INVALID, "numbered 0 to");
  kernel = found("softmax/f32/v01_naive");
  EXPECT_REFUSED(kl_open(kernel, "8192", &launcher), KL_INVALID, "ROWSxCOLS");
  EXPECT_REFUSED(kl_open(kernel, NULL, &launcher), KL_INVALID, "problem is NULL");
  EXPECT_REFUSED(kl_open(kernel, "8x8", NULL), KL_INVALID, "launcher is NULL");
  EXPECT(launcher == NULL);
  EXPECT(kl_supports(kernel, "8x8") == KL_OK);
  EXPECT_REFUSED(kl_supports(found("gemm/f32/v01_naive"), "1x1000000000x1"), KL_UNSUPPORTED, "N");
  EXPECT_REFUSED(kl_launch(NULL, NULL), KL_INVALID, "launcher is NULL");
  EXPECT_REFUSED(kl_plan(NULL, 256, 0), KL_INVALID, "launcher is NULL");
  EXPECT(kl_state_bytes(NULL) == 0);
  kl_close(NULL);
}

int main(void) {
  EXPECT(strlen(kl_git_sha()) > 0);
  every_kernel_is_described_and_found();
  a_transpose();
  counts_of_a_launch();
  an_argmax_of_bound_after_bound_arrays();
  the_best_version_is_the_suites_to_say();
  what_is_wrong_is_said();
  return failures != 0;
}
