bora_module(NAME backend/null)
