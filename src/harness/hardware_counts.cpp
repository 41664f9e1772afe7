#include "harness/hardware_counts.hpp"

namespace ladder {

const std::array<HardwareCounter, kHardwareCountsEnd>& hardware_counters() {
  // Wavefronts of the instructions. The unit's own count is more where something else uses shared
  // memory at the same time, as wgmma and the copy engine do. stmatrix came with Hopper.
  static const std::array<HardwareCounter, kHardwareCountsEnd> counters{{
      {"hw_global_ld_requests",
       {{"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"}},
       [](const Counters& c) { return c.global_load.requests; }},
      {"hw_global_ld_sectors",
       {{"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"}},
       [](const Counters& c) { return c.global_load.units; }},
      {"hw_global_st_requests",
       {{"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"}},
       [](const Counters& c) { return c.global_store.requests; }},
      {"hw_global_st_sectors",
       {{"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"}},
       [](const Counters& c) { return c.global_store.units; }},
      {"hw_shared_ld_wavefronts",
       {{"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
         "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"},
        {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"}},
       [](const Counters& c) { return c.shared_load_wavefronts().units; }},
      {"hw_shared_st_wavefronts",
       {{"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
         "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_stsm.sum"},
        {"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"},
        {"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"}},
       [](const Counters& c) { return c.shared_store_wavefronts().units; }},
      {"hw_dram_bytes", {{"dram__bytes.sum"}}},
      {"hw_issue_pct", {{"sm__inst_issued.avg.pct_of_peak_sustained_active"}}},
      {"hw_tensor_pct", {{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}}},
      {"hw_warps_pct", {{"sm__warps_active.avg.pct_of_peak_sustained_active"}}},
  }};
  return counters;
}

}  // namespace ladder
