# oneDNN, which computes products of bf16 operands. The build needs it unless it is told to do without: a binary that is several
# times slower on the same CPU should not come about by chance.
#
# Sets onednn_left_out, the sources that do not belong to this build.
set(onednn_left_out "/engine/backend/cpu/onednn/bf16_gemms\\.cpp$")
if(MBENCH_ONEDNN)
  set(onednn_left_out "/engine/backend/cpu/onednn/stub\\.cpp$")
  find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(ONEDNN_LIBRARY NAMES dnnl)
  if(NOT ONEDNN_INCLUDE OR NOT ONEDNN_LIBRARY)
    message(FATAL_ERROR "oneDNN is not found: install libdnnl-dev (scripts/install-packages does), or build without it by "
                        "-DMBENCH_ONEDNN=OFF: bf16 products are then computed in f32")
  endif()
endif()
