bora_module(NAME kv DEPS base)
add_executable(sim tests/sim/sim.cc)
