/* See config_toml.h: the only C++ of the command. */
#include "cli/config_toml.h"

#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <toml++/toml.h>

namespace {

struct walk {
    cli_toml_visit visit;
    void *self;
};

bool give(const walk &w, const std::string &name, const toml::node &node) {
    cli_toml_value value = {};
    value.name = name.c_str();
    value.line = static_cast<int>(node.source().begin.line);
    value.kind = CLI_TOML_OTHER;
    if (const auto *text = node.as_string()) {
        value.kind = CLI_TOML_TEXT;
        value.text = text->get().c_str();
        value.bytes = text->get().size();
    } else if (const auto *integer = node.as_integer()) {
        value.kind = CLI_TOML_INTEGER;
        value.integer = integer->get();
    } else if (const auto *number = node.as_floating_point()) {
        value.kind = CLI_TOML_FLOAT;
        value.number = number->get();
    } else if (const auto *flag = node.as_boolean()) {
        value.kind = CLI_TOML_FLAG;
        value.flag = flag->get();
    }
    return w.visit(w.self, &value) == 0;
}

bool descend(const walk &w, const std::string &prefix, const toml::table &table) {
    for (auto &&[key, node] : table) {
        std::string name = prefix + std::string(key.str());
        const toml::table *inner = node.as_table();
        if (!(inner ? descend(w, name + ".", *inner) : give(w, name, node))) return false;
    }
    return true;
}

} // namespace

cli_toml_result cli_toml_walk(const char *text, size_t bytes, cli_toml_visit visit, void *self, int *out_line,
                              char *message, size_t message_bytes) {
    *out_line = 0;
    message[0] = 0;
    try {
        toml::table table = toml::parse(std::string_view(text, bytes));
        return descend(walk{visit, self}, "", table) ? CLI_TOML_READ : CLI_TOML_STOPPED;
    } catch (const toml::parse_error &error) {
        std::string_view said = error.description();
        size_t length = said.size() < message_bytes - 1 ? said.size() : message_bytes - 1;
        std::memcpy(message, said.data(), length);
        message[length] = 0;
        *out_line = static_cast<int>(error.source().begin.line);
        return CLI_TOML_WRONG;
    } catch (const std::bad_alloc &) {
        return CLI_TOML_NO_MEMORY;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), message_bytes - 1);
        message[message_bytes - 1] = 0;
        return CLI_TOML_WRONG;
    }
}
