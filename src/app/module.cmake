bora_module(NAME app DEPS base tensor quant formats ir model device backend/cpu backend/null engine sample text text/tokenizer
            text/template text/chat net serve LIBS edit)
target_include_directories(bora_app PRIVATE ${CMAKE_BINARY_DIR})
add_dependencies(bora_app bora_stamp)
add_executable(bora ${CMAKE_SOURCE_DIR}/src/app/main.cc)
target_link_libraries(bora PRIVATE bora_app)
target_include_directories(bora PRIVATE ${CMAKE_BINARY_DIR})
add_dependencies(bora bora_stamp)
# The manual page comes from the list of verbs.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/bora.1 COMMAND bora manual > ${CMAKE_BINARY_DIR}/bora.1 DEPENDS bora VERBATIM)
add_custom_target(bora_manual ALL DEPENDS ${CMAKE_BINARY_DIR}/bora.1)
