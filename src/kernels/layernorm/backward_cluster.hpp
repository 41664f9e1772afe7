// backward_persistent.hpp's kernel for rows that are too long for the registers of one block: a
// cluster of blocks holds the row; and the rule for any length. For *.sm90a.cu.
#pragma once

#include "backward_block.hpp"
#include "backward_persistent.hpp"
#include "device/cluster_team.hpp"

namespace layernorm_rows {

template <class Norm, class T, class Held>
__global__ void __cluster_dims__(Held::Team::kBlocks) __launch_bounds__(Held::Team::kBlock, 1)
    backward_by_cluster(typename Norm::template Args<T> a, float* parts) {
  backward_rows<Norm, T, Held>(a, parts);
}

/// Calls f(Held<…>{}) for longer rows than a block holds: clusters of 2, 4 or 8.
template <class T, class F>
auto by_columns_of_cluster(int cols, F f) {
  constexpr int kBlock = 512, kElements = 16;
  auto with = [&]<class Vec>(Vec) {
    if (cols <= 2 * kMostColumns) return f(Held<ladder::ClusterTeam<2, kBlock>, Vec, kElements>{});
    if (cols <= 4 * kMostColumns) return f(Held<ladder::ClusterTeam<4, kBlock>, Vec, kElements>{});
    return f(Held<ladder::ClusterTeam<8, kBlock>, Vec, kElements>{});
  };
  return cols % ladder::Vec128<T>::size == 0 ? with(ladder::Vec128<T>{}) : with(ladder::Vec1<T>{});
}

/// The parts that clusters leave, a block on each multiprocessor.
template <class Held>
int parts_of_clusters(int rows) {
  return min(rows, max(1, ladder::multiprocessors() / Held::Team::kBlocks));
}

template <class Norm, class T>
std::size_t workspace_on_hopper(const typename Norm::template Args<T>& a) {
  if (a.cols <= kMostColumns) return workspace_of_persistent<Norm, T>(a);
  if (a.cols > 8 * kMostColumns) return workspace_of_two_kernels<Norm, T>(a);
  return by_columns_of_cluster<T>(a.cols, [&]<class Held>(Held) {
    return bytes_of_parts<Norm, Held>(parts_of_clusters<Held>(a.rows));
  });
}

template <class Norm, class T>
void launch_backward_on_hopper(const typename Norm::template Args<T>& a, cudaStream_t stream) {
  if (a.cols <= kMostColumns) return launch_persistent<Norm, T>(a, stream);
  if (a.cols > 8 * kMostColumns) return launch_two_kernels<Norm, T>(a, stream);
  by_columns_of_cluster<T>(a.cols, [&]<class Held>(Held) {
    const int parts = parts_of_clusters<Held>(a.rows);
    ladder::launch(backward_by_cluster<Norm, T, Held>, parts * Held::Team::kBlocks,
                   Held::Team::kBlock, 0, stream, a, static_cast<float*>(a.workspace));
    launch_add_parts<Norm, T, Held>(a, parts, stream);
  });
}

}  // namespace layernorm_rows
