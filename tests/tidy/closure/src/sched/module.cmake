bora_module(NAME sched)
