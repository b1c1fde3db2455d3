bora_module(NAME base LIBS bora_spdlog simdjson prometheus-cpp-core Threads::Threads)
