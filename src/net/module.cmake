bora_module(NAME net DEPS base LIBS Threads::Threads)
# ThreadSanitizer knows no fences; Asio's queues are locked and do without.
if(BORA_SANITIZE MATCHES "thread")
  target_compile_definitions(bora_net PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
