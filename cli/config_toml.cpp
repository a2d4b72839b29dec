/* See config_toml.h: the only C++ of the command. */
#include "cli/config_toml.h"

#include <cstdio>
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
    } else if (node.is_table()) {
        value.kind = CLI_TOML_TABLE;
    }
    return w.visit(w.self, &value) == 0;
}

/* A key as in the file when it is a bare one or plain UTF-8; else in quotes with what could be mistaken escaped: a
   dot inside a key is no dot between two, and a zero byte ends no name. */
std::string spell(std::string_view key) {
    bool quoted = key.empty();
    std::string name;
    for (char c : key) {
        auto byte = static_cast<unsigned char>(c);
        quoted = quoted || c == '.' || c == '"' || c == '\\' || byte < ' ' || byte == 0x7f;
        if (byte < ' ' || byte == 0x7f) {
            char escape[8];
            (void)std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
            name += escape;
        } else {
            if (c == '"' || c == '\\') name += '\\';
            name += c;
        }
    }
    return quoted ? '"' + name + '"' : name;
}

/* Longer names go no deeper: the visitor refuses them, and the depth of the recursion stays bounded. */
bool descend(const walk &w, const std::string &prefix, const toml::table &table) {
    for (auto &&[key, node] : table) {
        std::string name = prefix + spell(key.str());
        const toml::table *inner = node.as_table();
        bool open = inner && !inner->empty() && name.size() < CLI_TOML_NAME_BYTES;
        if (!(open ? descend(w, name + ".", *inner) : give(w, name, node))) return false;
    }
    return true;
}

} // namespace

cli_toml_result cli_toml_walk(const char *text, size_t bytes, cli_toml_visit visit, void *self, int *out_line,
                              char *message, size_t message_bytes) {
    *out_line = 0;
    message[0] = 0;
    if (bytes > CLI_TOML_MAX_BYTES) {
        (void)std::snprintf(message, message_bytes, "a configuration of %zu bytes; at most %d are read", bytes,
                            static_cast<int>(CLI_TOML_MAX_BYTES));
        *out_line = 1;
        return CLI_TOML_WRONG;
    }
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
