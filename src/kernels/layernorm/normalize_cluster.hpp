// normalize.hpp's kernel for rows that are too long for the registers of one block: a cluster of
// blocks holds the row. For *.sm90a.cu.
#pragma once

#include "device/cluster_team.hpp"
#include "normalize.hpp"

namespace layernorm_rows {

template <class Norm, class T, class Team, bool kAligned>
__global__ void __cluster_dims__(Team::kBlocks) __launch_bounds__(Team::kBlock, 1024 / Team::kBlock)
    normalize_by_cluster(typename Norm::template Args<T> a) {
  normalize_row<Norm, T, Team, kVectors<Norm>, kAligned, Weights::prefetched>(a);
}

/// By the row's length: what one block of 1024 threads does not hold is held by a cluster of 2, 4
/// or 8, the most that every Hopper GPU grants; what of a row is beyond those is read again.
template <class Norm, class T>
void launch_normalize_on_hopper(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  constexpr int kSize = ladder::Vec128<T>::size;
  constexpr int kBlock = 1024, kOfBlock = kBlock * kVectors<Norm>;  // of a cluster's blocks
  const int vectors = a.cols / kSize;
  auto by_cluster = [&]<class Team>(Team) {
    auto* const kernel = a.cols % kSize == 0 ? normalize_by_cluster<Norm, T, Team, true>
                                             : normalize_by_cluster<Norm, T, Team, false>;
    ladder::launch(kernel, Team::blocks(a.rows), Team::kBlock, 0, stream, a);
  };
  if (vectors <= 1024 * kVectors<Norm>) {
    return launch_normalize<Norm, Weights::prefetched>(a, stream);
  }
  if (vectors <= 2 * kOfBlock) return by_cluster(ladder::ClusterTeam<2, kBlock>{});
  if (vectors <= 4 * kOfBlock) return by_cluster(ladder::ClusterTeam<4, kBlock>{});
  if (vectors <= 8 * kOfBlock) return by_cluster(ladder::ClusterTeam<8, kBlock>{});
  by_cluster(ladder::ClusterTeam<8, kBlock, false>{});
}

}  // namespace layernorm_rows
