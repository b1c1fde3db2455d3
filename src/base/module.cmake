bora_module(NAME base LIBS bora_spdlog simdjson xxhash prometheus-cpp-core Threads::Threads)
