bora_module(NAME backend/cpu DEPS base tensor quant ir device)

# One file a level. GCC 12 warns of its own intrinsics' undefined pass-through operands, hence the exemption.
set(level_options -O3 -ffp-contract=off -Wno-maybe-uninitialized -Wno-uninitialized)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/backend/cpu/kernels_avx2.cc PROPERTIES COMPILE_OPTIONS
  "${level_options};-mavx2;-mfma;-mf16c")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/backend/cpu/kernels_avx512.cc PROPERTIES COMPILE_OPTIONS
  "${level_options};-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/backend/cpu/pick_scan.cc PROPERTIES COMPILE_OPTIONS
  "-O3;-ffp-contract=off;-mavx2;-mfma")
