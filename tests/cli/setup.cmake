# The built command is what is tested.
target_compile_definitions(test-${name} PRIVATE WEFT_COMMAND="$<TARGET_FILE:weft-command>")
add_dependencies(test-${name} weft-command)
