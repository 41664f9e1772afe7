// What a kernel did to memory, as the host executor counts it and a GPU's hardware counters do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ladder {

enum class Space : std::uint8_t { global, shared };

/// async is the shared side of cp.async, which writes past the registers; its global side is a
/// load. pushed is st.async. What the copy engine writes and reads (bulk, bulk_read) and wgmma reads
/// (product) is watched; so is what the copy engine writes in global memory (bulk_write,
/// bulk_reduce), which is counted by its copies. stmatrix and cluster_load are watched as stores and
/// loads, and counted by themselves.
enum class Access : std::uint8_t {
  load,
  store,
  atomic,
  async,
  bulk,
  bulk_read,
  product,
  pushed,
  bulk_write,
  bulk_reduce,
  stmatrix,
  cluster_load
};

/// Requests of one kind: a request is one instruction of one warp. Its units are 32-byte sectors in
/// global memory and wavefronts, the passes through the 32 banks, in shared memory.
struct Requests {
  std::uint64_t requests = 0;
  std::uint64_t units = 0;  ///< sectors, or wavefronts
  std::uint64_t ideal = 0;  ///< the fewest units that move the same bytes
  std::uint64_t lanes = 0;  ///< active lanes, added up over the requests
  std::uint64_t bytes = 0;  ///< asked for by the lanes, added up

  Requests& operator+=(const Requests& other) {
    requests += other.requests;
    units += other.units;
    ideal += other.ideal;
    lanes += other.lanes;
    bytes += other.bytes;
    return *this;
  }

  /// How many times the ideal: 32 sectors where 4 do are 8; in shared memory, the n of an n-way bank
  /// conflict. 1 of no requests.
  double excess() const {
    return ideal == 0 ? 1 : static_cast<double>(units) / static_cast<double>(ideal);
  }

  bool operator==(const Requests&) const = default;
};

/// Copies of the copy engine between global and shared memory, in one direction.
struct BulkCopies {
  std::uint64_t copies = 0;   ///< instructions
  std::uint64_t bytes = 0;    ///< of global memory
  std::uint64_t sectors = 0;  ///< that each copy touches, added up

  bool operator==(const BulkCopies&) const = default;
};

/// The products of wgmma, each of a warpgroup.
struct Products {
  std::uint64_t products = 0;  ///< instructions
  std::uint64_t bytes = 0;     ///< of A and B, read from shared memory

  bool operator==(const Products&) const = default;
};

/// The requests of one width that one line of a kernel makes.
struct LineCounters {
  std::string file;  ///< the kernel's file, as the compiler was given it
  int line = 0;
  Space space{};
  Access access{};
  unsigned width = 0;  ///< bytes per lane
  Requests requests;

  bool operator==(const LineCounters&) const = default;
};

/// Counters of one or more launches.
struct Counters {
  Requests global_load, global_store, global_atomic;
  Requests shared_load, shared_store, shared_atomic, shared_async, shared_stmatrix;
  /// Of the shared memory of any block of the cluster (DSMEM), each block's banks by themselves; and
  /// what of the loads is of the own block's, which has the bytes and wavefronts of those lanes.
  Requests cluster_load, cluster_store, own_cluster_load;
  BulkCopies bulk_load, bulk_store;
  Products wgmma;
  std::uint64_t barriers = 0;         ///< times that a block met at __syncthreads, over all blocks
  std::uint64_t mbarrier_phases = 0;  ///< that have ended
  std::vector<LineCounters> lines;    ///< by file, line, space, access and width

  Requests& of(Space space, Access access) {
    const bool global = space == Space::global;
    switch (access) {
      case Access::load:
        return global ? global_load : shared_load;
      case Access::store:
        return global ? global_store : shared_store;
      case Access::atomic:
        return global ? global_atomic : shared_atomic;
      case Access::stmatrix:
        return shared_stmatrix;
      case Access::cluster_load:
        return cluster_load;
      case Access::pushed:
        return cluster_store;
      default:
        return shared_async;
    }
  }

  /// Of shared memory, with the wavefronts that the hardware counts there: also of what loads from the
  /// cluster is of the own block, and of stmatrix.
  Requests shared_load_wavefronts() const {
    Requests all = shared_load;
    all.units += own_cluster_load.units;
    all.ideal += own_cluster_load.ideal;
    return all;
  }
  Requests shared_store_wavefronts() const {
    Requests all = shared_store;
    all.units += shared_stmatrix.units;
    all.ideal += shared_stmatrix.ideal;
    return all;
  }

  /// Of 32, over all requests; what divergence leaves of a warp. 0 of no requests.
  double mean_active_lanes() const {
    Requests all;
    for (const Requests& kind :
         {global_load, global_store, global_atomic, shared_load, shared_store, shared_atomic,
          shared_async, shared_stmatrix, cluster_load, cluster_store}) {
      all += kind;
    }
    return all.requests == 0 ? 0
                             : static_cast<double>(all.lanes) / static_cast<double>(all.requests);
  }

  /// What the sectors of all requests and copies to and from global memory move.
  double moved_bytes() const {
    return 32.0 * static_cast<double>(global_load.units + global_store.units + global_atomic.units +
                                      bulk_load.sectors + bulk_store.sectors);
  }

  bool operator==(const Counters&) const = default;
};

}  // namespace ladder
