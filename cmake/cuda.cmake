# CUDA, when BORA_CUDA is on: the language, the architectures and the rule for a folder of kernels.
#
# Every file is compiled for sm_80 (with its PTX, for what comes after) and for sm_90a; files named sm90_*.cu use Hopper's
# own instructions throughout and are compiled for sm_90a alone. The runtime is linked statically: a binary needs the driver only.
# bora_cuda_library(NAME <target> DIR <folder> [LIBS ...])
#   every *.cu below the folder goes into one static library, except *_device_bench.cu, an executable each, and
#   *_device_test.cu, which become one gtest binary
#   <target>_device_test (test group: its name with dashes) whose tests skip by name where there is no device.
if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
set(CMAKE_CUDA_ARCHITECTURES 80)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake 3.25 does not know how this compiler spells C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)

set(BORA_CUDA_FLAGS --expt-relaxed-constexpr -O3 -Xcompiler -Wall,-Wextra,-Wno-unused-parameter
    CACHE STRING "Options of nvcc for kernels")
# Hopper gets code of its own also from portable files: dependent launch exists from sm_90, and a kernel that is launched
# dependent without waiting would race.
set(BORA_CUDA_PORTABLE -gencode=arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90a,code=sm_90a)
set(BORA_CUDA_SM90 -gencode=arch=compute_90a,code=sm_90a)

function(bora_cuda_flags target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${BORA_CUDA_FLAGS}>)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES OFF)
endfunction()

function(bora_cuda_library)
  cmake_parse_arguments(M "" "NAME;DIR" "LIBS" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${M_DIR}/*.cu)
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_device_(test|bench)\\.cu$")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_device_test\\.cu$")
  foreach(file IN LISTS all)
    get_filename_component(name ${file} NAME)
    if(name MATCHES "^sm90_")
      set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS ${BORA_CUDA_SM90})
    else()
      set_property(SOURCE ${file} PROPERTY COMPILE_OPTIONS ${BORA_CUDA_PORTABLE})
    endif()
  endforeach()
  add_library(${M_NAME} STATIC ${sources})
  target_link_libraries(${M_NAME} PUBLIC bora_options ${M_LIBS})
  bora_cuda_flags(${M_NAME})
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_device_bench\\.cu$")
  foreach(file IN LISTS benches)
    get_filename_component(name ${file} NAME_WE)
    add_executable(${name} ${file})
    target_link_libraries(${name} PRIVATE ${M_NAME})
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    bora_cuda_flags(${name})
  endforeach()
  if(BORA_TESTS AND tests)
    add_executable(${M_NAME}_device_test ${tests})
    target_link_libraries(${M_NAME}_device_test PRIVATE ${M_NAME} gtest_main gtest Threads::Threads)
    target_link_options(${M_NAME}_device_test PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc)
    bora_cuda_flags(${M_NAME}_device_test)
    string(REPLACE "_" "-" group ${M_NAME}_device_test)
    add_test(NAME ${group} COMMAND ${M_NAME}_device_test)
  endif()
endfunction()
