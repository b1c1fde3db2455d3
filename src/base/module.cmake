bora_module(NAME base LIBS bora_spdlog simdjson xxhash Threads::Threads)
