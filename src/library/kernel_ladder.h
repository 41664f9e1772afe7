/* The kernels of Kernel Ladder for other programs: libkernel_ladder.so.
 *
 * A program finds a kernel by its name, opens it for a problem, asks which arrays that takes, binds
 * its own, and launches as often as it likes:
 *
 *   size_t kernel;
 *   kl_launcher* softmax = NULL;
 *   if (kl_find("softmax/f32/v05_vec128", KL_CUDA, &kernel) != KL_OK ||
 *       kl_open(kernel, "8192x4096", &softmax) != KL_OK) { puts(kl_last_error()); ... }
 *   size_t bytes;
 *   void* arrays[] = {x, y};
 *   kl_bind(softmax, arrays, 2, &bytes);
 *   if (bytes > 0) kl_set_workspace(softmax, scratch);
 *   if (kl_state_bytes(softmax) > 0) kl_set_state(softmax, zeros);
 *   kl_launch(softmax, stream);
 *   kl_close(softmax);
 *
 * A launcher of backend KL_CUDA belongs to the device that is current when it is opened, and takes its
 * pointers and streams; the library allocates no device memory for launches. Kernels of KL_HOST run on the
 * CPU by the host executor. They take ordinary pointers: a launch copies the arrays into memory whose
 * bounds the executor watches, and the output back.
 *
 * Functions that can fail return a kl_status; what was wrong is then in kl_last_error(). They may be
 * called by several threads at once, but for one launcher by one at a time.
 */
#ifndef KERNEL_LADDER_H
#define KERNEL_LADDER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  KL_OK = 0,
  KL_INVALID = 1,     /* a wrong argument: an unknown name, no such problem, a missing array */
  KL_UNSUPPORTED = 2, /* the kernel, or this device, cannot do the problem */
  KL_FAILED = 3       /* CUDA refused the launch, the host executor stopped it, or memory is short */
} kl_status;

/* One sentence about the last call of this thread that did not return KL_OK; never NULL. It stays
 * until the thread's next call that fails. */
const char* kl_last_error(void);

/* The commit that the library was built from; "-dirty" at its end where the files differed. */
const char* kl_git_sha(void);

typedef enum { KL_CUDA = 0, KL_HOST = 1 } kl_backend;

/* Texts live as long as the library. */
typedef struct {
  const char* name;    /* family[/op]/dtype/version; a backend has each name once */
  const char* family;  /* "softmax" */
  const char* op;      /* "backward"; "" where the family has one operation */
  const char* dtype;   /* that it is for: f32, f16, bf16, tf32 (in 32 bits), e4m3, e5m2, e2m1, f64, i4,
                          i8, i32, i64, u8, u32 or u64; of e2m1 and i4 a byte has two, the first in its
                          low half */
  const char* version; /* "v05_vec128" */
  const char* idea;    /* what the version does, in a few words */
  kl_backend backend;
  int is_baseline;   /* a vendor's library */
  int is_capturable; /* its launches may be captured into a CUDA graph */
} kl_kernel;

/* Kernels are numbered from 0 to kl_kernel_count() - 1. */
size_t kl_kernel_count(void);
kl_status kl_describe(size_t kernel, kl_kernel* description);
kl_status kl_find(const char* name, kl_backend backend, size_t* kernel);

/* The kernel for a problem of an operation, "softmax" or "layernorm/backward", in a dtype on the current
 * device: the suite's best, or where that cannot do it the last version that can. KL_UNSUPPORTED, with the
 * reason, where none can. No vendor's library is among them. */
kl_status kl_best(const char* operation, const char* dtype, kl_backend backend, const char* problem,
                  size_t* kernel);

/* KL_OK if a kernel can do a problem (as the family writes it: "4096x4096x4096") on the current
 * device; KL_UNSUPPORTED if not, with the reason in kl_last_error(). */
kl_status kl_supports(size_t kernel, const char* problem);

/* A kernel and a problem that it supports. */
typedef struct kl_launcher kl_launcher;

/* *launcher must be closed by the caller. */
kl_status kl_open(size_t kernel, const char* problem, kl_launcher** launcher);

/* NULL is nothing to do. The launches must be over only where the workspace is to be reused. */
void kl_close(kl_launcher* launcher);

/* What a kernel does with an array: reads it, writes it, or reads it and writes it in place. */
typedef enum { KL_INPUT = 0, KL_OUTPUT = 1, KL_IN_PLACE = 2 } kl_role;

/* A dense array. Its name lives as long as the launcher. */
typedef struct {
  const char* name;
  kl_role role;
  const char* dtype;
  size_t elements;
  size_t bytes;
} kl_array;

/* The arrays are numbered from 0 to kl_array_count() - 1, as the kernel's operation lists them. */
size_t kl_array_count(const kl_launcher* launcher);
kl_status kl_describe_array(const kl_launcher* launcher, size_t index, kl_array* array);

/* Decides how the problem is solved (which tile, grid, division of K, …) with arrays that start at multiples
 * of `alignment` bytes, a power of two from 1 to 256. may_time: a version that says so launches its choices
 * on memory of its own and keeps the fastest, which takes up to a second, synchronises the device and must
 * not happen while a CUDA graph is captured; 0: by an estimate. Plans stay until the launcher is closed. For
 * arrays without a plan kl_bind makes one by an estimate. */
kl_status kl_plan(kl_launcher* launcher, size_t alignment, int may_time);

/* Gives the arrays of the launches that follow; the workspace is to be set again. Inputs are not
 * written. Arrays that start at a multiple of 256 bytes, as cudaMalloc's, are fit for every kernel.
 * workspace_bytes gets the size of the scratch memory that the launches need, 0 if none. */
kl_status kl_bind(kl_launcher* launcher, void* const* arrays, size_t count,
                  size_t* workspace_bytes);

/* Starts at a multiple of 256 bytes. Launches that may overlap need one each. */
kl_status kl_set_workspace(kl_launcher* launcher, void* workspace);

/* Bytes that must be zero when the first launch begins that is given them, by which its blocks meet. A launch
 * leaves them as it found them, for the next one; after one that failed or was ended they are to be zeroed.
 * 0 if the launcher needs none; always the same of a problem. */
size_t kl_state_bytes(const kl_launcher* launcher);

/* Starts at a multiple of 256 bytes. Launches that may overlap need one each: those of one launcher on
 * several streams, or captured in several graphs, too. It stays until another one is set. */
kl_status kl_set_state(kl_launcher* launcher, void* state);

/* *capture gets the number of the capture that a cudaStream_t is in, 0 if none: launches of a captured graph
 * need a workspace and state that no launch outside it has. */
kl_status kl_capture_id(void* stream, unsigned long long* capture);

/* Launches on a cudaStream_t and returns at once; a KL_HOST kernel has run when this returns, and
 * its stream is NULL. */
kl_status kl_launch(kl_launcher* launcher, void* stream);

/* What a launch does to memory, as a GPU's hardware would count it: requests are instructions of a
 * warp, sectors 32 bytes of global memory, wavefronts passes through the banks of shared memory, ideal
 * the fewest units for the same bytes (docs/columns.md). */
typedef struct {
  unsigned long long global_ld_requests, global_ld_sectors, global_ld_ideal;
  unsigned long long global_st_requests, global_st_sectors, global_st_ideal;
  unsigned long long global_atomic_requests, global_atomic_sectors;
  unsigned long long shared_ld_requests, shared_ld_wavefronts, shared_ld_ideal;
  unsigned long long shared_st_requests, shared_st_wavefronts, shared_st_ideal;
  unsigned long long async_requests;               /* cp.async, its shared side */
  unsigned long long bulk_ld_bytes, bulk_st_bytes; /* of the copy engine */
  unsigned long long wgmma_bytes;                  /* of A and B, read from shared memory */
  unsigned long long barriers;                     /* of a block, over all blocks */
  unsigned long long moved_bytes;                  /* of all sectors */
} kl_counts;

/* Launches a KL_HOST kernel once, and counts. KL_UNSUPPORTED of KL_CUDA, whose counters Nsight Compute
 * reads. */
kl_status kl_count(kl_launcher* launcher, kl_counts* counts);

#ifdef __cplusplus
}
#endif

#endif
