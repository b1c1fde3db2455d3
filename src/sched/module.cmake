bora_module(NAME sched DEPS base kv)
