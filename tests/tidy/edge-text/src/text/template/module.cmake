bora_module(NAME text/template)
