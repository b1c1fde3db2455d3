# Flags for our own code. Third-party headers come from system folders and are exempt from -Werror.
add_library(bora_options INTERFACE)
target_compile_options(bora_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>)
target_include_directories(bora_options INTERFACE ${CMAKE_SOURCE_DIR}/src)

set(BORA_SANITIZE "" CACHE STRING "Value of -fsanitize= (address,undefined or thread)")
if(BORA_SANITIZE)
  add_compile_options(-fsanitize=${BORA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${BORA_SANITIZE})
endif()

# spdlog: Debian ships the compiled library; the external fmt is shared with our own use.
add_library(bora_fmt INTERFACE)
target_link_libraries(bora_fmt INTERFACE fmt)
add_library(bora_spdlog INTERFACE)
target_compile_definitions(bora_spdlog INTERFACE SPDLOG_COMPILED_LIB SPDLOG_FMT_EXTERNAL)
target_link_libraries(bora_spdlog INTERFACE spdlog fmt)

find_package(Threads REQUIRED)
