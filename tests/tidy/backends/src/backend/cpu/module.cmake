bora_module(NAME backend/cpu)
