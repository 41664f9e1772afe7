// cuBLAS and cuBLASLt for baselines and references: handles, and errors as exceptions.
//
// A handle belongs to a device, and what is set of it, the stream and the workspace, goes for all that follows:
// threads that shared one would launch on each other's streams. So each thread has handles of its own, for
// each device one.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>

namespace ladder {

/// Bytes of scratch memory for a launch of cuBLAS or cuBLASLt: what NVIDIA recommends for Hopper.
constexpr std::size_t kCublasWorkspace = 32 << 20;

/// The thread's cuBLAS handle of the current device on a stream, made on first use with the default math mode
/// (fp32 products in fp32, no TF32). Routines that need scratch memory take it from `workspace`, of
/// kCublasWorkspace bytes: launches that may overlap have one each, and none allocates, so that they can be
/// captured into graphs. Null: the handle's own, which all its launches share. Throws std::runtime_error.
cublasHandle_t cublas(cudaStream_t stream, void* workspace);

/// The thread's cuBLASLt handle of the current device, made on first use. Throws std::runtime_error.
cublasLtHandle_t cublas_lt();

/// A function of either library. They are loaded by the first call: that takes a tenth of a second, which
/// ./bench --help and most tests need not spend. Throws std::runtime_error.
void* cublas_function(const char* name);

using CublasGemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const void*, const void*, cudaDataType, int,
                                        const void*, cudaDataType, int, const void*, void*,
                                        cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

void cublas_check(cublasStatus_t status, const char* expression, const char* file, int line);

}  // namespace ladder

/// Evaluates a call of cuBLAS or cuBLASLt; throws std::runtime_error with the reason, the call and the place.
#define LADDER_CUBLAS(expression) \
  ::ladder::cublas_check((expression), #expression, __FILE__, __LINE__)

// The functions that are called, by their names in the libraries. Of cublasGemmEx there are two in C++.
#define LADDER_LOADED(name) LADDER_LOADED_AS(decltype(&name), name)
#define LADDER_LOADED_AS(type, name)                                \
  [] {                                                              \
    static void* const function = ::ladder::cublas_function(#name); \
    return reinterpret_cast<type>(function);                        \
  }()
#undef cublasCreate
#define cublasCreate LADDER_LOADED(cublasCreate_v2)
#undef cublasDestroy
#define cublasDestroy LADDER_LOADED(cublasDestroy_v2)
#undef cublasDdot_64
#define cublasDdot_64 LADDER_LOADED(cublasDdot_v2_64)
#undef cublasDgemm
#define cublasDgemm LADDER_LOADED(cublasDgemm_v2)
#define cublasGemmEx LADDER_LOADED_AS(::ladder::CublasGemmEx, cublasGemmEx)
#define cublasGetStatusString LADDER_LOADED(cublasGetStatusString)
#define cublasLtCreate LADDER_LOADED(cublasLtCreate)
#define cublasLtDestroy LADDER_LOADED(cublasLtDestroy)
#define cublasLtMatmul LADDER_LOADED(cublasLtMatmul)
#define cublasLtMatmulAlgoGetHeuristic LADDER_LOADED(cublasLtMatmulAlgoGetHeuristic)
#define cublasLtMatmulDescCreate LADDER_LOADED(cublasLtMatmulDescCreate)
#define cublasLtMatmulDescDestroy LADDER_LOADED(cublasLtMatmulDescDestroy)
#define cublasLtMatmulDescSetAttribute LADDER_LOADED(cublasLtMatmulDescSetAttribute)
#define cublasLtMatmulPreferenceCreate LADDER_LOADED(cublasLtMatmulPreferenceCreate)
#define cublasLtMatmulPreferenceDestroy LADDER_LOADED(cublasLtMatmulPreferenceDestroy)
#define cublasLtMatmulPreferenceSetAttribute LADDER_LOADED(cublasLtMatmulPreferenceSetAttribute)
#define cublasLtMatrixLayoutCreate LADDER_LOADED(cublasLtMatrixLayoutCreate)
#define cublasLtMatrixLayoutDestroy LADDER_LOADED(cublasLtMatrixLayoutDestroy)
#undef cublasSdot_64
#define cublasSdot_64 LADDER_LOADED(cublasSdot_v2_64)
#define cublasSetMathMode LADDER_LOADED(cublasSetMathMode)
#undef cublasSetPointerMode
#define cublasSetPointerMode LADDER_LOADED(cublasSetPointerMode_v2)
#undef cublasSetStream
#define cublasSetStream LADDER_LOADED(cublasSetStream_v2)
#undef cublasSetWorkspace
#define cublasSetWorkspace LADDER_LOADED(cublasSetWorkspace_v2)
#define cublasSgeam LADDER_LOADED(cublasSgeam)
#undef cublasSgemm
#define cublasSgemm LADDER_LOADED(cublasSgemm_v2)
