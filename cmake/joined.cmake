# A build from nothing reads the same headers hundreds of times. With CMAKE_UNITY_BUILD (scripts/quickstart, packages) sources are
# joined, eight to a unit, and CUDA kernels four. Strategies all call their parts alike (refuse, choices, write) and cannot be; they
# have their headers precompiled instead. Not otherwise: what is precompiled ccache cannot keep without settings of its own, and
# a change of one source would compile eight.
# What runs once around a training is optimized less, and the engine's host code at -O2; the CPU's kernels (mbench_backend) are
# compiled as in every release. GCC collects its garbage seldom: 2 to 16 % of the time of the units tried went there.
if(CMAKE_UNITY_BUILD)
  foreach(library base framework point formats sweeps reports api health cli)
    if(TARGET mbench_${library})
      target_compile_options(mbench_${library} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  endforeach()
  if(NOT MBENCH_SANITIZE)  # which is at -O1 as a whole
    foreach(library plan comm nn train sim strategies search platform)
      if(TARGET mbench_${library})
        target_compile_options(mbench_${library} PRIVATE $<$<CONFIG:Release>:-O2>)
      endif()
    endforeach()
  endif()
  # cuDNN's frontend is a minute of GCC at -O2, and makes a plan for each shape once.
  set(cudnn_sources ${PROJECT_SOURCE_DIR}/engine/backend/cuda/attention/flash.cpp
                    ${PROJECT_SOURCE_DIR}/engine/backend/cuda/attention/flash_graph.cpp)
  set_source_files_properties(${cudnn_sources} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A unit is no header: what a class hides of a source's own types stays hidden.
    target_compile_options(mbench_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=400000;-Wno-subobject-linkage>)
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # whose precompiled headers hold the times of files otherwise, which no compiler cache can keep
    target_compile_options(mbench_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
  set_target_properties(mbench_strategies PROPERTIES UNITY_BUILD OFF)
  target_precompile_headers(mbench_strategies PRIVATE <nlohmann/json.hpp> <fmt/format.h> <algorithm> <string> <vector>)
endif()
