# A build from nothing reads the same headers hundreds of times. With CMAKE_UNITY_BUILD (scripts/quickstart, packages) sources are
# joined, eight to a unit. Strategies and commands all call their parts alike (Options, run, refuse, write) and cannot be; they
# have their headers precompiled instead. Not otherwise: what is precompiled ccache cannot keep without settings of its own, and
# a change of one source would compile eight.
# What runs once around a training is optimized less.
if(CMAKE_UNITY_BUILD)
  foreach(library cli check sweeps reports)
    target_compile_options(mbench_${library} PRIVATE $<$<CONFIG:Release>:-O1>)
  endforeach()
  set_target_properties(mbench_strategies mbench_cli PROPERTIES UNITY_BUILD OFF)
  target_precompile_headers(mbench_strategies PRIVATE <nlohmann/json.hpp> <fmt/format.h> <algorithm> <string> <vector>)
  target_precompile_headers(mbench_cli PRIVATE <CLI/CLI.hpp> <nlohmann/json.hpp> <fmt/format.h> <filesystem> <fstream>)
  # Compiled with other options than the rest.
  set_source_files_properties(cli/cpu_check.cpp cli/compiled_for.cpp cli/environment.cpp cli/launch.cpp cli/find_spec.cpp
                              PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()
