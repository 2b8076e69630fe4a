/* SPDX-License-Identifier: Apache-2.0 */
/* The library's part of check_templates.py, as a program of a user. FOLDER has cases 0 to N - 1: I.jinja is a template,
 * I.jsonl a chat, I.json variables. I.0 becomes the chat as the template writes it, I.1 with the prompt of an answer;
 * I.0.error, I.1.error or I.error say why there is none. Usage: write_chats FOLDER N */
#include <ringfire/ringfire.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct chat_case {
    const char *folder, *variables;
    unsigned number;
    rf_chat_template *chat_template;
} chat_case;

static char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    *size = file && text ? fread(text, 1, (1 << 20) - 1, file) : 0;
    if (file) fclose(file);
    return text;
}

static void write_all(const chat_case *c, const char *suffix, const char *text, size_t size)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%u.%s", c->folder, c->number, suffix);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size, file) != size) exit(3);
    fclose(file);
}

static void write_error(const chat_case *c, const char *suffix)
{
    write_all(c, suffix, rf_error_message(), strlen(rf_error_message()));
}

static rf_result render(void *user, const rf_chat *chat, rf_chat_tokens *out)
{
    static const char *const names[2] = { "0", "1" }, *const errors[2] = { "0.error", "1.error" };
    const chat_case *c = user;
    for (int prompt = 0; prompt < 2; prompt++) {
        const rf_chat_apply_params params = { .add_generation_prompt = prompt == 1, .variables = c->variables };
        char *text;
        size_t size;
        const rf_result r = rf_chat_template_apply(c->chat_template, chat, &params, &text, &size);
        if (r < 0)
            write_error(c, errors[prompt]);
        else
            write_all(c, names[prompt], text, size);
        if (r >= 0) rf_string_free(text);
    }
    return rf_chat_tokens_append(out, &(int32_t){ 0 }, 1, false);
}

static rf_result run_chat(chat_case *c, const char *path)
{
    rf_dataset *data;
    rf_iterator *it;
    const rf_element *e;
    rf_result r =
        rf_dataset_from_chats(&(rf_chats_params){ .paths = &path, .num_paths = 1, .render = render, .user = c }, &data);
    if (r < 0) return r;
    r = rf_iterator_create(data, 0, &it);
    if (r >= 0) r = rf_iterator_next(it, &e);
    if (r >= 0) rf_iterator_destroy(&it);
    rf_dataset_destroy(&data);
    return r;
}

static void run_case(chat_case *c)
{
    char path[512];
    size_t size;
    snprintf(path, sizeof(path), "%s/%u.json", c->folder, c->number);
    char *variables = read_all(path, &size);
    snprintf(path, sizeof(path), "%s/%u.jinja", c->folder, c->number);
    char *text = read_all(path, &size);
    c->variables = variables;
    const rf_chat_template_params params = { .text = text, .size = size };
    rf_result r = rf_chat_template_create(&params, &c->chat_template);
    snprintf(path, sizeof(path), "%s/%u.jsonl", c->folder, c->number);
    if (r >= 0) r = run_chat(c, path);
    if (r < 0) write_error(c, "error");
    rf_chat_template_destroy(&c->chat_template);
    free(text);
    free(variables);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const unsigned count = (unsigned)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < count; i++) run_case(&(chat_case){ .folder = argv[1], .number = i });
    return 0;
}
