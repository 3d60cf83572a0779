# cmake --install: the program, the specs that it finds by name (mbench sweep quickstart) with their data, the documentation, the
# manual page and the completions of shells; and packages of the same by CPack: cpack -G DEB, or TGZ.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/mbench)
install(TARGETS mbench)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/schemas DESTINATION ${share})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/ci/slurm.sbatch DESTINATION ${share}/scripts)

# Where the program looks for specs: beside where it is installed, else in the sources that it was built from.
set_source_files_properties(cli/find_spec.cpp PROPERTIES COMPILE_DEFINITIONS
  "MBENCH_BINARY_DIR=\"${CMAKE_INSTALL_BINDIR}\";MBENCH_SHARE_DIR=\"${share}\";MBENCH_SOURCE_DIR=\"${PROJECT_SOURCE_DIR}\"")

# The program itself writes what follows from its options, when it is installed.
set(documents ${PROJECT_BINARY_DIR}/documents)
install(CODE "
  file(MAKE_DIRECTORY \"${documents}\")
  foreach(document IN ITEMS \"mbench.1 man\" \"mbench.bash completion bash\" \"_mbench completion zsh\")
    string(REPLACE \" \" \";\" words \"\${document}\")
    list(POP_FRONT words file)
    execute_process(COMMAND \"$<TARGET_FILE:mbench>\" \${words} OUTPUT_FILE \"${documents}/\${file}\" RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR \"mbench \${words} failed: \${failed}\")
    endif()
  endforeach()")
install(FILES ${documents}/mbench.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${documents}/mbench.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME mbench)
install(FILES ${documents}/_mbench DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

set(CPACK_PACKAGE_NAME mbench)
set(CPACK_PACKAGE_VENDOR "mbench")
set(CPACK_PACKAGE_CONTACT "The authors of mbench")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "What a training step of a transformer costs on a machine")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the libraries it is linked with, by dpkg-shlibdeps
# And the launcher of the MPI that it is linked with: another one's starts as many jobs of one rank.
if(MPI_C_LIBRARIES MATCHES mpich)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "mpich")
else()
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin")
endif()
# dpkg-shlibdeps is content with any variant of OpenBLAS; the one that was built with shares the program's own thread pool.
if(CBLAS_LIBRARY MATCHES "openblas-openmp/")
  string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", libopenblas0-openmp")
endif()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "gnuplot-nox")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
