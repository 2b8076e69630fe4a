/* SPDX-License-Identifier: Apache-2.0 */
/* The template in the files of a directory of the Hugging Face hub. */
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "persist/arrays/gguf.h"
#include "text/chat_template.h"
#include "text/chats.h"
#include "text/gguf_tokenizer.h"

#define TEMPLATE_FILE "chat_template.jinja"
#define CONFIG_FILE "tokenizer_config.json"

/* ---- tokenizer_config.json ---- */

/* A special token is a text, or an object with its "content". */
static json_t *token_text(const json_t *value)
{
    json_t *content = json_is_object(value) ? json_object_get(value, "content") : (json_t *)(uintptr_t)value;
    return json_is_string(content) ? content : NULL;
}

static rf_result find_tokens(const json_t *root, json_t *variables)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, name, value)
    {
        const size_t size = strlen(name);
        json_t *text = token_text(value);
        if (!text || size < 6 || strcmp(name + size - 6, "_token") != 0) continue;
        if (json_object_set(variables, name, text) < 0) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    }
    return RF_OK;
}

/* A single template, or of several the one that is called "default". */
static json_t *choose_template(const json_t *value)
{
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0) return json_object_get(item, "template");
    }
    return json_is_array(value) ? NULL : (json_t *)(uintptr_t)value;
}

rf_result rf_chat_template_find(const json_t *root, const char **text, size_t *size, json_t **variables)
{
    const json_t *chosen = choose_template(json_object_get(root, "chat_template"));
    *text = json_string_value(chosen);
    *size = json_string_length(chosen);
    *variables = json_object();
    const rf_result r = *variables ? find_tokens(root, *variables) : RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory");
    if (r < 0) json_decref(*variables);
    if (r < 0) *variables = NULL;
    return r;
}

/* ---- the directory ---- */

typedef struct template_files {
    char *jinja_path, *config_path;
    void *jinja, *config;
    size_t jinja_size, config_size;
    json_t *root, *variables;
} template_files;

/* A file that need not be there. */
static rf_result read_optional(const char *path, void **text, size_t *size)
{
    const rf_result r = rf_file_read(path, 0, text, size);
    return r == RF_ERROR_NOT_FOUND ? RF_OK : r;
}

static rf_result read_files(template_files *f, const char *directory, const rf_tokenizer *tokenizer,
                            rf_chat_template **out)
{
    const char *text = NULL;
    size_t size = 0;
    if (rf_gguf_matches(directory)) {
        RF_TRY(rf_gguf_load_tokenizer(directory, NULL, &f->root));
        RF_TRY(rf_chat_template_find(f->root, &text, &size, &f->variables));
        if (!text) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has no value 'tokenizer.chat_template'", directory);
        return rf_error_context(rf_chat_template_make(text, size, tokenizer, f->variables, out),
                                "%s: tokenizer.chat_template", directory);
    }
    f->jinja_path = rf_asprintf("%s/" TEMPLATE_FILE, directory);
    f->config_path = rf_asprintf("%s/" CONFIG_FILE, directory);
    if (!f->jinja_path || !f->config_path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(read_optional(f->jinja_path, &f->jinja, &f->jinja_size));
    RF_TRY(read_optional(f->config_path, &f->config, &f->config_size));
    if (f->config) {
        RF_TRY(rf_chat_json_parse(f->config, f->config_size, f->config_path, &f->root));
        RF_TRY(rf_error_context(rf_chat_template_find(f->root, &text, &size, &f->variables), "%s", f->config_path));
    }
    if (f->jinja) {
        text = f->jinja;
        size = f->jinja_size;
    }
    if (!text)
        return RF_FAIL(RF_ERROR_NOT_FOUND, "%s has neither " TEMPLATE_FILE " nor a \"chat_template\" in " CONFIG_FILE,
                       directory);
    const rf_result r = rf_chat_template_make(text, size, tokenizer, f->variables, out);
    return rf_error_context(r, "%s: the chat template", f->jinja ? f->jinja_path : f->config_path);
}

rf_result rf_chat_template_load(const char *directory, const rf_tokenizer *tokenizer, rf_chat_template **out)
{
    template_files f = { 0 };
    RF_REQUIRE(directory && out, "rf_chat_template_load: %s is NULL", directory ? "out" : "directory");
    *out = NULL;
    const rf_result r = read_files(&f, directory, tokenizer, out);
    rf_free(f.jinja_path);
    rf_free(f.config_path);
    rf_free(f.jinja);
    rf_free(f.config);
    json_decref(f.root);
    json_decref(f.variables);
    return r;
}
