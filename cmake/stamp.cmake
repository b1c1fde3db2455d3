# Version and build stamp: the version stands here, the commit comes from git at build time (not at configure time).
set(BORA_VERSION "0.1.0")
add_custom_target(bora_stamp ALL
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DOUT=${CMAKE_BINARY_DIR}/generated/build_stamp.h
          -DVERSION=${BORA_VERSION} -P ${CMAKE_SOURCE_DIR}/cmake/write_stamp.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/build_stamp.h
  COMMENT "" VERBATIM)
